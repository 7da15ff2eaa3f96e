package compare

import (
	"fmt"
	"slices"
	"strings"
)

// whoMax is the number of parts that a note names.
const whoMax = 3

// notes are what a reader of the table must know.
func (r *Report) notes() []string {
	var notes []string
	if r.Plan.Rounds < RoundsMin {
		notes = append(notes, fmt.Sprintf("too few rounds for a verdict: %d of at least %d; 7 are usual", r.Plan.Rounds, RoundsMin))
	}
	if !r.Complete {
		notes = append(notes, fmt.Sprintf("not complete: %d of %d starts", len(r.Starts), len(r.Plan.steps())))
	}
	if r.Plan.Scale < 1 {
		notes = append(notes, fmt.Sprintf("each part ran %.3g %% of the bytes or the time of the full workload", r.Plan.Scale*100))
	}
	if noisy := r.noisy(); noisy > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d rows have ratios that spread over %.0f %%: this host was too noisy to say how much they differ", noisy, len(r.Rows), spreadMax*100))
	}
	if r.Host.FileSystem == "tmpfs" || r.Host.FileSystem == "ramfs" {
		notes = append(notes, "the data lay in memory ("+r.Host.FileSystem+"): nothing here tells of a disk")
	}
	return append(notes, r.told()...)
}

func (r *Report) noisy() int {
	n := 0
	for _, row := range r.Rows {
		if row.Noisy {
			n++
		}
	}
	return n
}

// told gathers what the runs had to say, each kind once: as it was said first, and of which parts.
func (r *Report) told() []string {
	var order []string
	first, where := map[string]string{}, map[string][]string{}
	for _, s := range r.Starts {
		for _, result := range s.Results {
			for _, f := range result.Parts {
				for _, text := range f.Notes {
					kind, _, _ := strings.Cut(text, ":")
					kind = strings.Map(withoutDigits, kind)
					if first[kind] == "" {
						order, first[kind] = append(order, kind), text
					}
					who := fmt.Sprintf("%s of %s", part(result.Workload, f.Part), r.Brokers[s.Side].Name)
					if !slices.Contains(where[kind], who) {
						where[kind] = append(where[kind], who)
					}
				}
			}
		}
	}
	lines := make([]string, len(order))
	for i, kind := range order {
		who := where[kind]
		if more := len(who) - whoMax; more > 1 {
			who = append(who[:whoMax:whoMax], fmt.Sprintf("%d more parts", more))
		}
		lines[i] = first[kind] + " (so said of " + strings.Join(who, "; ") + ")"
	}
	return lines
}

func withoutDigits(r rune) rune {
	if r >= '0' && r <= '9' || r == '.' {
		return -1
	}
	return r
}

// Durability lists what an acknowledgement meant, with the parts that it holds for.
func (r *Report) Durability() []string {
	var order []string
	where := map[string][]string{}
	for _, s := range r.Starts {
		for _, result := range s.Results {
			for _, f := range result.Parts {
				if f.Durability == "" {
					continue
				}
				if where[f.Durability] == nil {
					order = append(order, f.Durability)
				}
				if name := part(result.Workload, f.Part); !slices.Contains(where[f.Durability], name) {
					where[f.Durability] = append(where[f.Durability], name)
				}
			}
		}
	}
	lines := make([]string, len(order))
	for i, o := range order {
		lines[i] = strings.Join(where[o], ", ") + ": " + o + ", on both sides"
	}
	return lines
}
