package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"millrace/cmd/admin"
)

// tokenName is the environment's name of the setting that the broker takes its token from.
const tokenName = "MILLRACE_ADMIN_TOKEN"

// topFlags are those of top.
type topFlags struct {
	admin    string
	interval time.Duration
	timeout  time.Duration
	rows     int
	asJSON   bool
	token    string
}

func (a *App) topCommand() *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the busiest topics, clients and groups of a broker",
		Long: `Show the busiest topics, clients and groups of one broker of this make, anew every --interval until Ctrl-C. Where the
output is no terminal they are shown once, after one interval. They come from the broker's admin endpoint
(millrace.admin.listen); the environment's ` + tokenName + ` is sent as its token.`,
		Example: "  millrace top\n  millrace top --json --rows 3 | jq .topics",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case flags.interval < time.Second:
				return usagef("--interval %v must be 1s or more", flags.interval)
			case flags.timeout <= 0:
				return usagef("--timeout %v must be above zero", flags.timeout)
			case flags.rows < 1 || flags.rows > 1000:
				return usagef("--rows %d must be 1 to 1000", flags.rows)
			}
			for _, e := range a.Environ {
				if token, ok := strings.CutPrefix(e, tokenName+"="); ok {
					flags.token = token
				}
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return a.top(ctx, &flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.admin, "admin", "127.0.0.1:9644", "HOST:PORT of the broker's admin endpoint")
	f.DurationVar(&flags.interval, "interval", 2*time.Second, "how long between two looks; rates are over that time")
	f.DurationVar(&flags.timeout, "timeout", 10*time.Second, "how long the broker may take to answer")
	f.IntVar(&flags.rows, "rows", 10, "how many of each to show")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON, once")
	return cmd
}

// busiest is one look at a broker.
type busiest struct {
	Overview admin.Overview     `json:"overview"`
	Figures  map[string]float64 `json:"figures"` // of the last seconds, by the columns of /api/history; -1: not known
	Topics   []admin.TopicRow   `json:"topics"`
	Clients  []admin.ClientRow  `json:"clients"`
	Groups   []admin.GroupRow   `json:"groups"`
}

func (a *App) top(ctx context.Context, flags *topFlags) error {
	look, err := flags.look(ctx)
	if err != nil {
		return err
	}
	live := a.OutTerminal && !flags.asJSON
	if live {
		fmt.Fprint(a.Out, "\x1b[?1049h")
		defer fmt.Fprint(a.Out, "\x1b[?1049l")
	}
	tick := time.NewTicker(flags.interval)
	defer tick.Stop()
	for {
		if live {
			if err := a.paint(look); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			if live {
				return nil
			}
			return errors.New("interrupted")
		case <-tick.C:
		}
		if look, err = flags.look(ctx); err != nil {
			if live && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if flags.asJSON {
			return a.printJSON(look)
		}
		if !live {
			return look.write(a.Out)
		}
	}
}

// paint fills the screen, cut to its size.
func (a *App) paint(look *busiest) error {
	width, height := 80, 24
	if out, ok := a.Out.(*os.File); ok {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
	}
	var b bytes.Buffer
	if err := look.write(&b); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), height)]
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	_, err := fmt.Fprint(a.Out, "\x1b[H\x1b[2J"+strings.Join(lines, "\r\n"))
	return err
}

// look asks for everything once.
func (f *topFlags) look(ctx context.Context) (*busiest, error) {
	var out busiest
	var history admin.History
	var topics admin.List[admin.TopicRow]
	var clients admin.List[admin.ClientRow]
	var groups admin.List[admin.GroupRow]
	rows := "limit=" + strconv.Itoa(f.rows)
	for _, ask := range []struct {
		path string
		into any
	}{
		{"overview", &out.Overview}, {"history?after=" + strconv.FormatInt(time.Now().Add(-10*time.Second).UnixMilli(), 10), &history},
		{"topics?sort=rate&" + rows, &topics}, {"clients?sort=rate&" + rows, &clients}, {"groups?sort=rate&" + rows, &groups},
	} {
		if err := f.ask(ctx, ask.path, ask.into); err != nil {
			return nil, err
		}
	}
	out.Topics, out.Clients, out.Groups, out.Figures = topics.Rows, clients.Rows, groups.Rows, map[string]float64{}
	for i, name := range history.Columns {
		if n := len(history.Rows); n > 0 && i > 0 && i < len(history.Rows[n-1]) {
			out.Figures[name] = history.Rows[n-1][i]
		}
	}
	return &out, nil
}

func (f *topFlags) ask(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.admin+"/api/"+path, nil)
	if err != nil {
		return usagef("--admin %q is not HOST:PORT", f.admin)
	}
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("no admin endpoint answers at %s: %w; is the broker running there, and is --admin its millrace.admin.listen?", f.admin, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("admin endpoint %s: %w", f.admin, err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("admin endpoint %s asks for a token: put the broker's millrace.admin.token into the environment as %s", f.admin, tokenName)
	default:
		var told struct{ Error string }
		if json.Unmarshal(raw, &told) != nil || told.Error == "" {
			told.Error = "is it that of a broker of this make?"
		}
		return fmt.Errorf("admin endpoint %s: %s: %s", f.admin, resp.Status, told.Error)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("admin endpoint %s: what it answers is not understood: %w", f.admin, err)
	}
	return nil
}

// write prints a look as text.
func (b *busiest) write(out io.Writer) error {
	o, figure := &b.Overview, func(name string) *float64 {
		if v, ok := b.Figures[name]; ok && v >= 0 {
			return &v
		}
		return nil
	}
	health := ""
	if o.Health != "" {
		health = "\nNOT WELL: " + plain(o.Health)
	}
	fmt.Fprintf(out, "node %d, up %v, %s, %s, %s, %s%s\n", o.NodeID, o.Now.Sub(o.Started).Round(time.Second), count(int64(o.Topics), "topic"),
		count(int64(o.Partitions), "partition"), count(int64(o.Groups), "group"), count(o.Connections, "connection"), health)
	fixed := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	milliseconds := func(v float64) string { return strconv.FormatFloat(v*1000, 'f', 1, 64) + " ms" }
	fmt.Fprintf(out, "in %s/s, out %s/s, %s requests/s, produce p99 %s, %s CPUs, %s memory\n\n",
		sizeOf(figure("produced_bytes_per_second")), sizeOf(figure("fetched_bytes_per_second")), rateOf(figure("requests_per_second")),
		knownAs(figure("produce_p99_seconds"), milliseconds), knownAs(figure("cpus"), fixed), sizeOf(figure("memory_bytes")))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tRECORDS\tSIZE\tRECORDS IN/S\tGROWTH/S")
	for _, t := range b.Topics {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", plain(t.Name), t.Partitions, t.Records, size(t.Bytes), rateOf(t.InRate), sizeOf(t.GrowthRate))
	}
	fmt.Fprintln(w, "\nCLIENT\tADDRESS\tCONNECTIONS\tREQUESTS/S\tPRODUCED/S\tFETCHED/S")
	for _, c := range b.Clients {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", dash(plain(c.ID)), c.Address, c.Connections, rateOf(c.RequestRate), sizeOf(c.ProducedRate), sizeOf(c.FetchedRate))
	}
	fmt.Fprintln(w, "\nGROUP\tSTATE\tMEMBERS\tLAG\tLAG GROWS/S\tCOMMITTED/S")
	for _, g := range b.Groups {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", dash(plain(g.ID)), g.State, g.Members, g.Lag, rateOf(g.LagRate), rateOf(g.ReadRate))
	}
	return w.Flush()
}

// plain writes out what a terminal would take for commands.
func plain(s string) string {
	quoted := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// knownAs writes a figure in its own way, and a dash where it is not known.
func knownAs(v *float64, format func(float64) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

func rateOf(r *float64) string {
	return knownAs(r, func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) })
}

func sizeOf(r *float64) string {
	return knownAs(r, func(v float64) string { return size(int64(v)) })
}
