package engine

import "context"

func (s *Store) recover(ctx context.Context) error {
	x, _, err := openIndexStore(&s.opts, func(err error) { s.fail(err) })
	if err != nil {
		return err
	}
	s.index = x
	return nil
}
