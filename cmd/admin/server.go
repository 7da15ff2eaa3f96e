package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options configure a Server.
type Options struct {
	// Listen is the HOST:PORT to listen on; port 0 picks one.
	Listen string
	// Token is what is asked for; empty: nothing is.
	Token string
	// Healthy returns why the broker cannot go on, nil while it can. It must not block.
	Healthy func() error
	// Ready returns why the broker takes no clients now, nil while it does. It must not block.
	Ready func() error
	// Impaired returns what does not work while the rest does, nil where all works. It must not block.
	Impaired func() error
	Logger   *slog.Logger
}

// Server answers until Close.
type Server struct {
	http     *http.Server
	view     atomic.Pointer[view] // nil before Show
	asks     chan struct{}        // a place for each request below /api/ that is being answered
	stop     chan struct{}
	registry *prometheus.Registry
	address  string
	served   sync.WaitGroup
}

// Start listens and returns. An address in use is named together with the remedy.
func Start(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("admin endpoint %s: %w; end what uses the port (`ss -ltnp` shows it), or set millrace.admin.listen to another HOST:PORT, or to nothing for none", o.Listen, err)
		}
		return nil, fmt.Errorf("admin endpoint: %w", err)
	}
	s := &Server{address: listener.Addr().String(), registry: prometheus.NewRegistry(), asks: make(chan struct{}, asksMax), stop: make(chan struct{})}
	err = s.Export(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.http = &http.Server{
		Handler:           gate(&o, isOpen, s.handler(&o)),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	s.served.Go(func() {
		if err := s.http.Serve(&bounded{listener, make(chan struct{}, connectionsMax)}); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("admin endpoint ended", "err", err)
		}
	})
	return s, nil
}

// Export adds to what /metrics shows. It may be called while the server runs.
func (s *Server) Export(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := s.registry.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

func (s *Server) handler(o *Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", o.answer(o.Healthy))
	mux.HandleFunc("GET /readyz", o.answer(o.Ready))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("/api/", s.serveAPI(o.Ready))
	for path, f := range pageFiles() {
		mux.HandleFunc("GET "+path, f.serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is no such path: /, /metrics, /healthz, /readyz, /debug/pprof/ and /api/ are here")
	})
	return mux
}

// isOpen tells which paths need no token: what says whether the broker lives, and the page without what it shows.
func isOpen(path string) bool {
	_, page := pageFiles()[path]
	return page || path == "/" || path == "/healthz" || path == "/readyz"
}

// Show fills the page. It is called once.
func (s *Server) Show(source Source) {
	v := &view{Source: source}
	s.view.Store(v)
	s.served.Go(func() { v.record(s.stop) })
}

// answer says ok and what does not work all the same, or 503 with the reason.
func (o *Options) answer(state func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := state(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
		if o.Impaired == nil {
			return
		}
		if err := o.Impaired(); err != nil {
			fmt.Fprintln(w, err)
		}
	}
}

// Hide ends what Show began, and waits for the answers that are being made: nothing of the source is touched any more
// but counters. The page may never have been shown.
func (s *Server) Hide() {
	s.view.Store(nil)
	for range asksMax {
		s.asks <- struct{}{}
	}
	for range asksMax {
		<-s.asks
	}
}

// Address returns HOST:PORT with the real port.
func (s *Server) Address() string { return s.address }

// Close answers what is being asked, until ctx is done, and waits for the end.
func (s *Server) Close(ctx context.Context) error {
	close(s.stop)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.served.Wait()
	return err
}
