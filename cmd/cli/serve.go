package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"millrace/cmd/broker"
	"millrace/cmd/logs"
	"millrace/cmd/settings"
	"millrace/meta/config"
)

// stopTimeout bounds how long a stop waits for clients; a service manager kills after 90 s or less.
const stopTimeout = 30 * time.Second

func (a *App) serveCommand() *cobra.Command {
	var (
		flags  settings.Flags
		print  bool
		asJSON bool
	)
	started := time.Now()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: `Run a broker until SIGTERM or SIGINT: then clients are answered and everything is synced; another signal a
second or more after the first ends the process at once. SIGHUP reads the settings again: the dynamic ones take effect,
and which others changed is logged.

Settings carry Kafka's names; those of millrace alone begin with millrace. They come from the command line
(--set and the short forms), the environment (MILLRACE_LOG_RETENTION_MS is log.retention.ms) and a properties
file (--config), in this order of precedence. --print-config lists them all; docs/configuration.md explains them. Those that are defaults of topics' configs,
as log.retention.ms of retention.ms, stand in the same places; topic create --config sets them for one topic.`,
		Example: `  millrace serve --data-dir ./data
  millrace serve --data-dir /var/lib/millrace --listen 0.0.0.0:9092 --advertise broker1.example.org:9092
  millrace serve --config broker.properties --set log.retention.ms=86400000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd, "config", "data-dir", "listen", "advertise", "node-id"); err != nil {
				return err
			}
			loaded, err := settings.Load(flags, a.Environ)
			if err != nil {
				return usagef("settings:%s", listed(err))
			}
			if print {
				return a.printConfig(loaded, asJSON)
			}
			if asJSON {
				return usagef("--json belongs to --print-config")
			}
			return a.serve(cmd.Context(), loaded, started, func() (*config.Broker, error) { return settings.Load(flags, a.Environ) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.ConfigFile, "config", "c", "", "properties file with settings")
	f.StringArrayVarP(&flags.Set, "set", "s", nil, "KEY=VALUE of a setting; repeatable")
	f.StringVarP(&flags.DataDir, "data-dir", "d", "", "directory that all data is kept in, or several separated by commas (log.dirs)")
	f.StringVarP(&flags.Listen, "listen", "l", "", "HOST:PORT to listen on (listeners)")
	f.StringVarP(&flags.Advertise, "advertise", "a", "", "HOST:PORT that clients are told to connect to (advertised.listeners)")
	f.StringVar(&flags.NodeID, "node-id", "", "number of this broker in its cluster (node.id)")
	f.BoolVar(&print, "print-config", false, "print every setting with value, source, effect and meaning, and end")
	f.BoolVar(&asJSON, "json", false, "print JSON (with --print-config)")
	return cmd
}

// listed puts several faults on a line each.
func listed(err error) string {
	faults := strings.Split(err.Error(), "\n")
	if len(faults) == 1 {
		return " " + faults[0]
	}
	return "\n  " + strings.Join(faults, "\n  ")
}

func (a *App) logger(loaded *config.Broker) *slog.Logger {
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	var form slog.Handler = slog.NewJSONHandler(a.Err, all)
	if loaded.LogFormat == "text" || loaded.LogFormat != "json" && a.Terminal {
		form = slog.NewTextHandler(a.Err, all)
	}
	return logs.New(form, loaded.LogLevels, "broker")
}

// garbagePercent is how much garbage may gather beside what is in use. What runs all the time leaves none, so that
// a collection is rare; after a burst of large requests half of Go's own 100 keeps memory within its bounds, also
// where the collector gets its turn late.
const garbagePercent = 50

// tellManager tells a service manager that waits for it (systemd's Type=notify) how far the broker is.
func tellManager(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager could not be told", "state", state, "err", err)
	}
}

func (a *App) serve(parent context.Context, loaded *config.Broker, started time.Time, again func() (*config.Broker, error)) error {
	log := a.logger(loaded)
	ctx, stop := interruptible(parent)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // from now on: during a start it waits
	defer signal.Stop(hangups)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	log.Info("broker starting", "version", a.Version, "node_id", loaded.NodeID, "data_dirs", strings.Join(loaded.DataDirs, ","), "pid", os.Getpid())
	b, err := broker.Open(ctx, loaded, log)
	if err != nil {
		if ctx.Err() != nil {
			log.Info("broker stopped before it was ready")
			return nil
		}
		return err
	}
	log.Info("broker ready", "listeners", strings.Join(b.Addresses(), ","), "admin", b.AdminAddress(),
		"cluster_id", b.ClusterID(), "took_ms", time.Since(started).Milliseconds())
	tellManager(log, daemon.SdNotifyReady)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-hangups:
			read, err := again()
			if err == nil {
				err = b.Reread(read)
			}
			if err != nil {
				log.Error("settings stay as they were", "err", err)
			}
		}
	}
	tellManager(log, daemon.SdNotifyStopping)
	log.Info("broker stopping")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopped := time.Now()
	if err := b.Close(stopping); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("broker stopped", "took_ms", time.Since(stopped).Milliseconds())
	return nil
}
