package bench

import "context"

const (
	mixedShare  = 0.7  // of what P1 reaches
	mixedWindow = 1000 // a schedule must not wait for answers
)

// runMixed finds out what P1 reaches, unless a rate is given, and then produces and fetches at the same
// time, each half of 70 % of that.
func runMixed(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	probe := s
	if probe.Rate = max(s.Rate, rateMin); s.Window < mixedWindow && !s.Idempotent {
		probe.Window = mixedWindow
	}
	if err := probe.validate(); err != nil {
		return nil, &UsageError{err}
	}
	var all []*Figures
	if s.Rate == 0 {
		alone := s
		alone.Readers = 0
		r.part = "P1 alone"
		l, err := r.prepare(ctx, alone)
		if err != nil {
			return nil, err
		}
		f, err := r.produce(ctx, l)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
		if err := r.clean(ctx); err != nil {
			return nil, err
		}
		s.Rate = min(max(f.Produced.RequestsPerSecond*mixedShare/2, rateMin), rateMax)
	}
	s.Window = probe.Window
	if s.Duration > 0 {
		s.Bytes = 0
	}
	r.part = "produce and fetch"
	l, err := r.prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	f, err := r.tail(ctx, l)
	if err != nil {
		return nil, err
	}
	return append(all, f), nil
}
