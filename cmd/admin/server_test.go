package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"millrace/engine"
	"millrace/netio"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	var ready atomic.Bool
	network, store := &netio.Metrics{}, &engine.Metrics{}
	network.BytesIn.Store(42)
	store.WriteDuration.Observe(3)
	s, err := Start(Options{
		Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Healthy: func() error { return nil },
		Ready: func() error {
			if !ready.Load() {
				return errors.New("starting")
			}
			return nil
		},
	})
	if err == nil {
		err = s.Export(Net(network), Engine(store, func() error { return nil }, ""))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + s.Address()
	f := func(path string, code int, holds ...string) {
		t.Helper()
		gotCode, body := get(t, url+path)
		if gotCode != code {
			t.Errorf("%s answers %d, want %d", path, gotCode, code)
		}
		for _, want := range holds {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not hold %q:\n%s", path, want, body)
			}
		}
	}
	f("/healthz", 200, "ok")
	f("/readyz", 503, "starting")
	ready.Store(true)
	f("/readyz", 200, "ok")
	f("/metrics", 200, "millrace_net_received_bytes_total 42", `millrace_net_connections_closed_total{cause="idle"} 0`,
		`millrace_engine_write_seconds_bucket{le="3e-06"} 1`, "millrace_engine_write_seconds_count 1", "go_goroutines", "process_")
	f("/debug/pprof/", 200, "goroutine")
	f("/nothing", 404)

	if _, err := Start(Options{Listen: s.Address(), Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "millrace.admin.listen") {
		t.Errorf("a busy port: %v", err)
	}
}
