package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"millrace/meta/config"
)

// parseFile reads a file in the syntax of Java properties: key=value, key:value or key value, comments with
// # or !, a backslash at the end of a line joins the next, and the escapes \t \n \r \f \uXXXX. Unlike Java's
// reader it refuses a key that is set twice, of which one would be lost without a word.
func parseFile(file, text string) (config.Settings, error) {
	var faults []error
	found := config.Settings{}
	if !utf8.ValidString(text) {
		return found, fmt.Errorf("%s: not UTF-8 text", file)
	}
	for _, line := range logicalLines(strings.TrimPrefix(text, "\ufeff")) {
		origin := fmt.Sprintf("%s line %d", file, line.number)
		key, value, err := splitProperty(line.text)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", origin, err))
			continue
		case key == "":
			faults = append(faults, fmt.Errorf("%s: there is no key", origin))
			continue
		}
		if before, ok := found[key]; ok {
			faults = append(faults, fmt.Errorf("%s: %s is set before, at %s", origin, key, before.Origin))
			continue
		}
		found[key] = config.Setting{Value: strings.TrimSpace(value), Origin: origin}
	}
	return found, errors.Join(faults...)
}

type logicalLine struct {
	number int // of the first line
	text   string
}

// logicalLines joins continued lines and leaves out comments and blank lines.
func logicalLines(text string) []logicalLine {
	const blanks = " \t\f"
	var lines []logicalLine
	continued := false
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimLeft(line, blanks)
		if !continued && (line == "" || line[0] == '#' || line[0] == '!') {
			continue
		}
		backslashes := len(line) - len(strings.TrimRight(line, `\`))
		more := backslashes%2 == 1
		if more {
			line = line[:len(line)-1]
		}
		if continued {
			lines[len(lines)-1].text += line
		} else {
			lines = append(lines, logicalLine{number: i + 1, text: line})
		}
		continued = more
	}
	return lines
}

// splitProperty cuts a logical line at the first separator that is not escaped.
func splitProperty(line string) (key, value string, err error) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	rest := strings.TrimLeft(line[end:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	if key, err = unescape(line[:end]); err != nil {
		return "", "", err
	}
	value, err = unescape(rest)
	return key, value, err
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", errors.New(`\u needs four hexadecimal digits`)
			}
			code, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", errors.New(`\u needs four hexadecimal digits`)
			}
			b.WriteRune(rune(code))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}
