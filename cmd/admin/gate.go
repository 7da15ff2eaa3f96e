package admin

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"
)

// Bounds on what one who asks can take.
const (
	connectionsMax = 256
	queryBytesMax  = 4096
	bodyTimeout    = 5 * time.Second
	answerTimeout  = time.Minute // of everything but profiles, which take the time that they are asked for
)

// headers keep what is shown from being taken for something else, and from other sites. The page needs no more than
// its own files; text becomes part of it only as text.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// gate stands before everything that is served and turns away what is not meant for it. open paths need no token.
func gate(o *Options, open func(path string) bool, next http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(o.Listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if r.ContentLength != 0 { // nobody reads it; what is slow to come may not hold the connection
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "this endpoint only reads: GET and HEAD")
			return
		case len(r.URL.RawQuery) > queryBytesMax:
			fail(w, http.StatusRequestURITooLong, "the query is longer than 4096 bytes")
			return
		case path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") && r.URL.Path != "/":
			fail(w, http.StatusBadRequest, "the path is not in its shortest form")
			return
		case o.Token == "" && !hostAllowed(r.Host, own):
			// A name that another site's owner points here would let that site's pages read what is here.
			fail(w, http.StatusForbidden, "ask by address or as localhost: without millrace.admin.token other names are refused, since pages of other sites could use them")
			return
		case r.URL.Path != "/" && foreign(r.Header.Get("Sec-Fetch-Site")):
			fail(w, http.StatusForbidden, "asked by a page of another site")
			return
		case o.Token != "" && !open(r.URL.Path) && !authorized(r, o.Token):
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, "send millrace.admin.token as 'Authorization: Bearer TOKEN'")
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // tests' writers have none
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed tells whether a Host header is an address, localhost or the name that the endpoint listens on.
func hostAllowed(host, own string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || own != "" && strings.EqualFold(host, own)
}

// foreign tells whether a browser says that another site's page asks.
func foreign(site string) bool { return site == "cross-site" || site == "same-site" }

func authorized(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// bounded is a listener that accepts no more connections than it has places.
type bounded struct {
	net.Listener
	places chan struct{}
}

// Accept waits for a place and a connection.
func (l *bounded) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, free: sync.OnceFunc(func() { <-l.places })}, nil
}

type placed struct {
	net.Conn
	free func()
}

// Close closes the connection and gives its place free.
func (c *placed) Close() error {
	defer c.free()
	return c.Conn.Close()
}
