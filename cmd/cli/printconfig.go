package cli

import (
	"fmt"
	"text/tabwriter"

	"millrace/meta/config"
)

// printConfig lists every setting of the broker.
func (a *App) printConfig(loaded *config.Broker, asJSON bool) error {
	rows := loaded.Rows()
	if !asJSON {
		return a.table(func(w *tabwriter.Writer) {
			fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tSOURCE\tEFFECT\tMEANING")
			for _, r := range rows {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, shown(r.Value), shown(r.Default), r.Source, r.Effect, r.Doc)
			}
		})
	}
	type row struct {
		Name    string `json:"name"`
		Value   string `json:"value"`
		Default string `json:"default"`
		Source  string `json:"source"`
		Effect  string `json:"effect"`
		Meaning string `json:"meaning"`
	}
	list := make([]row, len(rows))
	for i, r := range rows {
		list[i] = row{r.Name, r.Value, r.Default, r.Source, r.Effect, r.Doc}
	}
	return a.printJSON(list)
}

// shown keeps a column from being empty.
func shown(value string) string {
	if value == "" {
		return "-"
	}
	return value
}
