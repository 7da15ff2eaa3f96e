package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// LogLevels says what components log at least. What has no level of its own has that of "".
type LogLevels map[string]slog.Level

// Of returns the level of a component.
func (l LogLevels) Of(component string) slog.Level {
	if level, ok := l[component]; ok {
		return level
	}
	return l[""]
}

const (
	logComponents = "broker engine meta netio kafka admin"
	logLevelValid = "debug, info, warn or error, and COMPONENT=LEVEL with commas between"
)

// ParseLogLevels reads millrace.log.level: a level, levels of components, or both, with commas between.
func ParseLogLevels(text string) (LogLevels, error) {
	levels := LogLevels{}
	for entry := range strings.SplitSeq(text, ",") {
		component, name, named := strings.Cut(strings.TrimSpace(entry), "=")
		if !named {
			component, name = "", component
		}
		if named && !slices.Contains(strings.Fields(logComponents), component) {
			return nil, fmt.Errorf("there is no component %q, only %s", component, strings.ReplaceAll(logComponents, " ", ", "))
		}
		at := slices.Index([]string{"debug", "info", "warn", "error"}, strings.ToLower(name))
		if at < 0 {
			return nil, fmt.Errorf("there is no level %q, only debug, info, warn, error", name)
		}
		if _, twice := levels[component]; twice {
			return nil, fmt.Errorf("%q stands twice", entry)
		}
		levels[component] = slog.LevelDebug + slog.Level(4*at)
	}
	return levels, nil
}

func logLevel(v Parsed) error {
	_, err := ParseLogLevels(v.Text)
	return err
}

// logLevels reads a value that was checked.
func logLevels(text string) LogLevels {
	levels, _ := ParseLogLevels(text)
	return levels
}

// LogLevels returns what components log at least.
func (r *Resolver) LogLevels() LogLevels {
	return logLevels(r.broker("millrace.log.level").Text)
}
