// Package logs says what each component of the broker logs at least, and lets that change while the broker runs.
package logs

import (
	"context"
	"log/slog"
	"sync/atomic"

	"millrace/meta/config"
)

// handler lets through what its component logs.
type handler struct {
	slog.Handler
	plain     slog.Handler // without attributes of a component
	levels    *atomic.Pointer[config.LogLevels]
	component string
}

// New returns the logger of a component. h must let everything through.
func New(h slog.Handler, levels config.LogLevels, component string) *slog.Logger {
	all := &atomic.Pointer[config.LogLevels]{}
	all.Store(&levels)
	return loggerOf(h, all, component)
}

func loggerOf(h slog.Handler, levels *atomic.Pointer[config.LogLevels], component string) *slog.Logger {
	named := h.WithAttrs([]slog.Attr{slog.String("component", component)})
	return slog.New(&handler{Handler: named, plain: h, levels: levels, component: component})
}

// For returns the logger of another component with the levels of log. A logger that New did not make is returned as it
// is.
func For(log *slog.Logger, component string) *slog.Logger {
	if h, ok := log.Handler().(*handler); ok {
		return loggerOf(h.plain, h.levels, component)
	}
	return log
}

// Set changes the levels of log and of all that For made of it. It may be called at any time.
func Set(log *slog.Logger, levels config.LogLevels) {
	if h, ok := log.Handler().(*handler); ok {
		h.levels.Store(&levels)
	}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.levels.Load().Of(h.component)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithGroup(name)
	return &with
}
