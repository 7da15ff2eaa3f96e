package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"millrace/bench/compare"
)

// table gathers the rounds of all clients.
type table struct {
	clients           []client
	produced, fetched [][]figures // by client and round
}

func newTable(clients []client) *table {
	return &table{clients: clients, produced: make([][]figures, len(clients)), fetched: make([][]figures, len(clients))}
}

func (t *table) add(client int, produced, fetched figures) {
	t.produced[client], t.fetched[client] = append(t.produced[client], produced), append(t.fetched[client], fetched)
}

// print writes the medians with their ranges.
func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLIENT\tDOES\tRECORDS/S\tMB/S\tBROKER CPU S/GB (RANGE)\tCLIENT CPU S/GB")
	for _, part := range []struct {
		does string
		of   [][]figures
	}{{"produce", t.produced}, {"fetch", t.fetched}} {
		for i, c := range t.clients {
			rounds := part.of[i]
			rate, _ := spread(rounds, func(f figures) float64 { return f.perSecond })
			broker, between := spread(rounds, func(f figures) float64 { return f.brokerCPU })
			own, _ := spread(rounds, func(f figures) float64 { return f.clientCPU })
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%s (%s)\t%s\n", c.name, part.does, rate, rate*recordBytes/1e6, compare.Number(broker), between, compare.Number(own))
		}
	}
	return w.Flush()
}

// spread returns the median and the range of a figure.
func spread(of []figures, which func(figures) float64) (median float64, between string) {
	var all []float64
	for _, f := range of {
		all = append(all, which(f))
	}
	if len(all) == 0 {
		return 0, "-"
	}
	slices.Sort(all)
	median = all[len(all)/2]
	if len(all)%2 == 0 {
		median = (all[len(all)/2-1] + median) / 2
	}
	return median, compare.Number(all[0]) + "-" + compare.Number(all[len(all)-1])
}
