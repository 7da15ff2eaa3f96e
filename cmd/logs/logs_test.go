package logs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"millrace/meta/config"
)

func TestLevelsOfComponents(t *testing.T) {
	var out bytes.Buffer
	levels := func(text string) config.LogLevels {
		l, err := config.ParseLogLevels(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	log := New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), levels("warn,engine=debug"), "broker")
	engine, net := For(log, "engine").With("shard", 1), For(log, "netio").WithGroup("g")
	f := func(want ...string) {
		t.Helper()
		out.Reset()
		log.Info("one")
		engine.Debug("two")
		net.Warn("three", "k", "v")
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), "level=")
			got = append(got, rest)
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	two, three := "DEBUG msg=two component=engine shard=1", "WARN msg=three component=netio g.k=v"
	f(two, three)
	Set(log, levels("info"))
	f("INFO msg=one component=broker", three)
	Set(engine, levels("error,engine=debug,netio=info"))
	f(two, three)
	plain := slog.New(slog.DiscardHandler)
	if Set(plain, levels("debug")); For(plain, "engine") != plain {
		t.Error("a logger of another kind was changed")
	}
}
