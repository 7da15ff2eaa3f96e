package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// endpoint is one path below /api/.
type endpoint struct {
	path       string
	parameters []string
	answer     func(v *view, p *parameters) (any, error)
}

// endpoints lists all of them; docs/operations.md describes them.
func endpoints() []endpoint {
	return []endpoint{
		{"/api/overview", nil, (*view).overview},
		{"/api/history", []string{"after"}, (*view).chartHistory},
		{"/api/topics", []string{"filter", "sort", "limit"}, (*view).topics},
		{"/api/topic", []string{"name", "from", "limit"}, (*view).topic},
		{"/api/groups", []string{"filter", "sort", "limit"}, (*view).groups},
		{"/api/group", []string{"id"}, (*view).group},
		{"/api/clients", []string{"filter", "sort", "limit"}, (*view).clients},
		{"/api/records", []string{"topic", "partition", "offset", "time", "limit", "search", "whole"}, (*view).records},
	}
}

// asksMax is how many requests below /api/ are answered at a time: each may hold some MiB.
const asksMax = 8

// statusError is an error with the status to answer.
type statusError struct {
	status int
	text   string
}

// Error implements error.
func (e *statusError) Error() string { return e.text }

func refusef(status int, format string, values ...any) error {
	return &statusError{status, fmt.Sprintf(format, values...)}
}

// fail answers an error in the form of all answers below /api/.
func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // to one who is gone
}

// serveAPI answers below /api/.
func (s *Server) serveAPI(ready func() error) http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints() {
		mux.HandleFunc(e.path, func(w http.ResponseWriter, r *http.Request) {
			body, err := s.answerAPI(&e, r, ready)
			var refused *statusError
			switch {
			case err == nil:
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(body) // to one who is gone
			case errors.As(err, &refused):
				if refused.status == http.StatusTooManyRequests {
					w.Header().Set("Retry-After", "1")
				}
				fail(w, refused.status, refused.text)
			default:
				fail(w, http.StatusInternalServerError, err.Error())
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is no such path; docs/operations.md lists them")
	})
	return mux
}

// answerAPI makes a whole answer. It holds a place only for that and not while a slow reader takes it.
func (s *Server) answerAPI(e *endpoint, r *http.Request, ready func() error) ([]byte, error) {
	select {
	case s.asks <- struct{}{}:
		defer func() { <-s.asks }()
	default:
		return nil, refusef(http.StatusTooManyRequests, "%d requests are being answered: ask again", asksMax)
	}
	v := s.view.Load()
	if v == nil {
		return nil, refusef(http.StatusServiceUnavailable, "the broker is not ready: %v", ready())
	}
	p, err := e.parse(r)
	if err != nil {
		return nil, err
	}
	answer, err := e.answer(v, p)
	if p.fault != nil {
		return nil, p.fault
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// parse reads the query, in which each parameter may stand once.
func (e *endpoint) parse(r *http.Request) (*parameters, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refusef(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for name, given := range values {
		if !slices.Contains(e.parameters, name) || len(given) > 1 {
			return nil, refusef(http.StatusBadRequest, "parameter %q: each of %q may stand once", name, e.parameters)
		}
		if !utf8.ValidString(given[0]) {
			return nil, refusef(http.StatusBadRequest, "parameter %q is not UTF-8", name)
		}
	}
	return &parameters{values: values, done: r.Context().Done()}, nil
}

// parameters reads the query of one request. The first fault stays.
type parameters struct {
	values url.Values
	done   <-chan struct{} // closed when nobody waits for the answer any more
	fault  error
}

func (p *parameters) has(name string) bool { return p.values.Has(name) }

func (p *parameters) text(name string) string { return p.values.Get(name) }

// number returns a whole number within bounds, the fallback where none is given.
func (p *parameters) number(name string, fallback, low, high int64) int64 {
	if !p.has(name) {
		return fallback
	}
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	if (err != nil || n < low || n > high) && p.fault == nil {
		p.fault = refusef(http.StatusBadRequest, "%s=%q is not a whole number from %d to %d", name, p.text(name), low, high)
	}
	return n
}

// choice returns one of the words, the first where none is given.
func (p *parameters) choice(name string, words ...string) string {
	if !p.has(name) {
		return words[0]
	}
	if !slices.Contains(words, p.text(name)) && p.fault == nil {
		p.fault = refusef(http.StatusBadRequest, "%s=%q is not one of %s", name, p.text(name), strings.Join(words, ", "))
	}
	return p.text(name)
}

// Bounds of a list: its rows, and the bytes that clients chose of what is in them.
const (
	listMax      = 1000
	listBytesMax = 1 << 20
)

// List is a part of something long.
type List[T any] struct {
	Total   int `json:"total"`   // of all
	Matches int `json:"matches"` // of them, after the filter
	Rows    []T `json:"rows"`    // of these, as many as the limits allow
}

// listed filters by a part of the name, orders and cuts. compare puts the first of the list first.
func listed[T any](p *parameters, rows []T, name func(*T) string, compare func(a, b *T) int) List[T] {
	l := List[T]{Total: len(rows), Rows: []T{}}
	limit, part := p.number("limit", 100, 1, listMax), p.text("filter")
	for i := range rows {
		if strings.Contains(name(&rows[i]), part) {
			l.Rows = append(l.Rows, rows[i])
		}
	}
	slices.SortStableFunc(l.Rows, func(a, b T) int { return compare(&a, &b) })
	l.Matches = len(l.Rows)
	l.Rows = l.Rows[:min(int(limit), len(l.Rows))]
	room := listBytesMax
	for i := range l.Rows {
		if room -= len(name(&l.Rows[i])); room < 0 {
			l.Rows = l.Rows[:i]
			break
		}
	}
	return l
}
