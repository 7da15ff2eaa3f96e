package tune

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"millrace/bench/compare"
)

// search decides what is measured and when; what measures is given.
type search struct {
	options Options
	measure func(ctx context.Context, v Variant, at Progress) ([]Measured, error)
	say     func(format string, args ...any)

	mu      sync.Mutex // left is asked from the progress of a run
	done    int
	planned int // starts, those that confirm included until it is known that there are none
	began   time.Time
}

// run does all of it.
func (s *search) run(ctx context.Context) (*Report, error) {
	o := s.options
	r := &Report{Format: Format, Command: o.Command, Millrace: o.Version, Goal: o.Goal, Rounds: o.Rounds, Seconds: o.Duration.Seconds(),
		Began: time.Now().UTC(), Host: compare.HostOf(o.DataDirs[0]), Tunables: o.Tunables, Trials: []Trial{}, Settings: []string{}}
	all := variants(o.Tunables)
	s.began, s.planned = time.Now(), (len(all)+2)*o.Rounds
	if len(all) > 2 {
		s.say("sweep for %s: %d rounds of %s", o.Goal, o.Rounds, names(all))
	}
	rounds, err := s.rounds(ctx, "sweep", all, r)
	if err != nil {
		return nil, err
	}
	r.Control = newTrial(all[1], rounds[1], rounds[0])
	for i := 2; i < len(all); i++ {
		if rounds[i] != nil {
			r.Trials = append(r.Trials, newTrial(all[i], rounds[i], rounds[0]))
		}
	}
	if chosen, ok := choose(o.Tunables, r.Control, r.Trials); ok {
		s.say("confirming %s", chosen.Name)
		again := []Variant{{Name: "defaults"}, chosen}
		rounds, err := s.rounds(ctx, "confirming", again, r)
		if err != nil {
			return nil, err
		}
		if rounds[1] != nil {
			t := newTrial(chosen, rounds[1], rounds[0])
			r.Confirmed = &t
		}
	}
	r.Ended = time.Now().UTC()
	r.Outcome = conclude(r.Control, r.Trials, r.Confirmed)
	if r.Outcome == Recommended {
		r.Settings = r.Confirmed.Variant.Settings
	}
	return r, nil
}

// rounds measures all variants in each round and returns the figures by variant and round. The order turns from
// round to round, so that none is always the first or behind the same. A variant that the broker does not start
// with is told in the report and has nil; the defaults must start.
func (s *search) rounds(ctx context.Context, phase string, of []Variant, r *Report) ([][][]Measured, error) {
	all := make([][][]Measured, len(of))
	out := make([]bool, len(of))
	for round := range s.options.Rounds {
		for i := range of {
			v := (i + round) % len(of)
			if out[v] {
				s.step()
				continue
			}
			at := Progress{Phase: phase, Round: round + 1, Rounds: s.options.Rounds, Variant: of[v].Name}
			s.say("%s, round %d of %d: %s%s", phase, round+1, s.options.Rounds, of[v].Name, s.leftText())
			figures, err := s.measure(ctx, of[v], at)
			if errors.Is(err, errCannotStart) && len(of[v].Settings) > 0 && len(all[v]) == 0 {
				r.Starts = append(r.Starts, StartFailed{of[v].Name, err.Error()})
				out[v] = true
				s.step()
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s, round %d, %s: %w", phase, round+1, of[v].Name, err)
			}
			all[v] = append(all[v], figures)
			s.step()
		}
	}
	return all, nil
}

func (s *search) step() {
	s.mu.Lock()
	s.done++
	s.mu.Unlock()
}

// guessedAround is what a start and each workload take beyond what is measured, before one was seen.
const guessedAround = 1500 * time.Millisecond

// left estimates how long the run still takes, what confirms included.
func (s *search) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.options.Goal.loads(s.options.Duration, bytesMax))
	each := time.Duration(n)*(s.options.Duration+s.options.Duration/warmupShare+guessedAround) + guessedAround
	if s.done > 0 {
		each = time.Since(s.began) / time.Duration(s.done)
	}
	return max(each*time.Duration(s.planned-s.done), time.Second)
}

func (s *search) leftText() string {
	unit := time.Second
	left := s.left()
	if left > 2*time.Minute {
		unit = time.Minute
	}
	text := left.Round(unit).String()
	if unit == time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	return fmt.Sprintf(" (at most about %s left)", text)
}
