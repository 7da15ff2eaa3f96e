package broker

import (
	"context"
	"log/slog"
	"testing"

	"millrace/meta/config"
)

// BenchmarkStart is the time from nothing to a broker that clients can connect to, on an empty directory and
// after a clean stop.
func BenchmarkStart(b *testing.B) {
	open := func(b *testing.B, dir string) *Broker {
		settings, err := config.ParseBroker(config.Settings{
			"log.dirs":              {Value: dir},
			"listeners":             {Value: "PLAINTEXT://127.0.0.1:0"},
			"millrace.admin.listen": {Value: "127.0.0.1:0"},
		})
		if err != nil {
			b.Fatal(err)
		}
		broker, err := Open(context.Background(), settings, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		return broker
	}
	run := func(dir func(b *testing.B) string) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				d := dir(b)
				b.StartTimer()
				broker := open(b, d)
				b.StopTimer()
				if err := broker.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		}
	}
	b.Run("empty", run(func(b *testing.B) string { return b.TempDir() }))
	again := b.TempDir()
	b.Run("clean", run(func(*testing.B) string { return again }))
}
