package admin

import (
	_ "embed"
	"net/http"
)

//go:embed page.html
var pageHTML []byte

//go:embed page.css
var pageCSS []byte

//go:embed page.js
var pageJS []byte

//go:embed page.svg
var pageIcon []byte

// pageFile is one file of the page.
type pageFile struct {
	kind string
	body []byte
}

// pageFiles returns the page's files by the pattern of their path.
func pageFiles() map[string]pageFile {
	return map[string]pageFile{
		"/{$}":      {"text/html; charset=utf-8", pageHTML},
		"/page.css": {"text/css; charset=utf-8", pageCSS},
		"/page.js":  {"text/javascript; charset=utf-8", pageJS},
		"/page.svg": {"image/svg+xml", pageIcon},
	}
}

func (f pageFile) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.body) // to one who is gone
}
