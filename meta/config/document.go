package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Row is one line of --print-config.
type Row struct {
	Name    string
	Value   string // empty where nothing is set and there is no default
	Default string
	Source  string // "default", or where the value was written
	Effect  string // of a value here: "takes effect", "no meaning here" or "refused"
	Doc     string // one sentence
}

// Rows returns every setting of the broker in the order of names. Sensitive values are hidden.
func (b *Broker) Rows() []Row {
	var rows []Row
	for _, d := range brokerDefinitions(maps.Keys(b.settings)) {
		row := Row{Name: d.Name, Value: d.Default, Default: d.Default, Source: SourceDefault.String(), Effect: d.Standing.String(), Doc: d.short}
		if row.Doc == "" {
			row.Doc = firstSentence(d.Doc)
		}
		if s, ok := b.settings[d.Name]; ok {
			row.Value, row.Source = s.Value, s.Origin
			if d.Sensitive {
				row.Value = "[hidden]"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// firstSentence ends at the first full stop that a blank follows.
func firstSentence(doc string) string {
	if i := strings.Index(doc, ". "); i >= 0 {
		return doc[:i+1]
	}
	return doc
}

// WriteDocumentation writes docs/configuration.md.
func WriteDocumentation(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`# Configuration

<!-- Generated from the table in meta/config; do not edit. -->

Settings carry the names, defaults and types of Apache Kafka 4.4 where it has them; millrace's own begin
with ` + "`millrace.`" + `. They come from a properties file (` + "`--config FILE`" + `), from the environment (` + "`MILLRACE_NODE_ID`" + `
is ` + "`node.id`, `MILLRACE_IO_BACKEND` is `millrace.io.backend`" + `) and from ` + "`--set KEY=VALUE`" + `. An unknown or ill-typed
setting stops the start. ` + "`millrace serve --print-config`" + ` shows every setting with its value and where it is from.

A value of a topic is looked for in the topic's own configs, in the dynamic configs of the broker, in those
of all brokers, in the broker's static settings, and last in the table below. *Dynamic* settings can be
altered while the broker runs. What has *no meaning* is accepted, so that tools work, and changes nothing. Of what is
*default only* another value is refused with the reason.

## Settings of the broker

`)
	works := func(d *Definition) bool { return d.Standing == Effective }
	writeTable(&b, slices.DeleteFunc(slices.Clone(BrokerDefinitions()), func(d *Definition) bool { return !works(d) }))
	b.WriteString("\n## Settings of Apache Kafka that do nothing here\n\nA file of settings written for Kafka is taken as far as it asks for nothing that is not there.\n\n")
	writeTable(&b, slices.DeleteFunc(slices.Clone(BrokerDefinitions()), works))
	b.WriteString("\n## Configs of topics\n\n")
	writeTable(&b, TopicDefinitions())
	b.WriteString("\n## Configs of groups\n\nOf groups of the consumer protocol (KIP-848); set with the resource type GROUP.\n\n")
	writeTable(&b, GroupDefinitions())
	_, err := w.Write(b.Bytes())
	return err
}

func writeTable(b *bytes.Buffer, definitions []*Definition) {
	b.WriteString("| name | type | default | values | kind | meaning |\n|---|---|---|---|---|---|\n")
	for _, d := range definitions {
		doc := d.Doc
		if d.Scope != ScopeBroker && len(d.Synonyms) > 0 {
			var names []string
			for _, s := range d.Synonyms {
				names = append(names, "`"+s.Name+"`")
			}
			doc += " Default of the broker: " + strings.Join(names, ", ") + "."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", d.Name, d.Type, d.shownDefault(), escape(d.Valid), d.kind(), escape(doc))
	}
}

func (d *Definition) shownDefault() string {
	switch {
	case d.Null:
		return "none"
	case d.Default == "":
		return "empty"
	}
	return "`" + escape(d.Default) + "`"
}

func (d *Definition) kind() string {
	switch {
	case d.Standing == NoMeaning:
		return "no meaning"
	case d.Standing == Refused:
		return "default only"
	case d.Scope == ScopeBroker && d.Dynamic:
		return "dynamic"
	case d.Scope == ScopeBroker:
		return "at start"
	}
	return "takes effect"
}

func escape(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
