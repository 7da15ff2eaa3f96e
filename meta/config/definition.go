package config

// Type is the type of a value, as DescribeConfigs names it.
type Type uint8

// The types. Durations are longs with the unit at the end of the name.
const (
	Bool Type = iota + 1
	String
	Int
	Short
	Long
	Double
	List
	Class
	Password
)

// String returns the lower-case name that the documentation uses.
func (t Type) String() string {
	names := [...]string{"", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if int(t) >= len(names) {
		return ""
	}
	return names[t]
}

// Scope tells where a definition is set.
type Scope uint8

// The scopes.
const (
	ScopeTopic Scope = iota + 1
	ScopeBroker
	ScopeGroup
)

// Standing tells what a definition does here.
type Standing uint8

// The standings.
const (
	// Effective values change what the broker does.
	Effective Standing = iota + 1
	// NoMeaning values are accepted and shown, and change nothing; the documentation says why.
	NoMeaning
	// Refused definitions accept their default only; Reason says why.
	Refused
)

// String returns the words that --print-config shows.
func (s Standing) String() string {
	names := [...]string{"", "takes effect", "no meaning here", "refused"}
	if int(s) >= len(names) {
		return ""
	}
	return names[s]
}

// Importance ranks a definition for readers.
type Importance uint8

// The ranks.
const (
	High Importance = iota + 1
	Medium
	Low
)

// String returns the lower-case name.
func (i Importance) String() string {
	names := [...]string{"", "high", "medium", "low"}
	if int(i) >= len(names) {
		return ""
	}
	return names[i]
}

// Source tells where a value stands.
type Source uint8

// The sources, nearest first.
const (
	SourceTopic                Source = iota + 1 // override of the topic
	SourceGroup                                  // override of the group
	SourceDynamicBroker                          // dynamic config of this broker
	SourceDynamicDefaultBroker                   // dynamic config of all brokers
	SourceStaticBroker                           // file, flag or environment of this broker
	SourceDefault                                // the table
)

// String returns the words that --print-config shows.
func (s Source) String() string {
	names := [...]string{"", "topic", "group", "dynamic broker", "dynamic default", "static", "default"}
	if int(s) >= len(names) {
		return ""
	}
	return names[s]
}

// Synonym is a broker setting that stands in for another definition where that has no value of its own.
type Synonym struct {
	Name   string
	Factor int64 // what one unit of the synonym's value is worth: 1, or 60,000 for minutes against milliseconds
	Null   bool  // the first synonym has no default of its own
}

// Definition is one row of the table. It is immutable.
type Definition struct {
	Name       string
	Type       Type
	Scope      Scope
	Standing   Standing
	Importance Importance
	Default    string
	Null       bool   // there is no default: DescribeConfigs answers null
	Doc        string // what it does, in one or two sentences
	Reason     string // for Refused: why, and what to do instead
	// Synonyms are the broker settings that are asked where this one is not set, nearest first.
	Synonyms []Synonym
	// Dynamic broker settings may be altered while the broker runs.
	Dynamic bool
	// PerListener broker settings may be set for one listener besides, as listener.name.NAME.SETTING.
	PerListener bool
	// Sensitive values are never shown.
	Sensitive bool
	// Check tells what is wrong with a value that has the right type; nil: nothing can be.
	Check func(v Parsed) error
	// Valid describes the legal values for the documentation, for example "[0,...]".
	Valid string

	short string // Doc in one sentence; empty: its first one
}

// Parsed is a value in the form that its type asks for. Text always holds the trimmed text.
type Parsed struct {
	Text   string
	Bool   bool
	Number int64 // Int, Short, Long
	Double float64
	List   []string // without empty elements
}

// ReadOnly tells whether the value can only be set at the start.
func (d *Definition) ReadOnly() bool { return d.Scope == ScopeBroker && !d.Dynamic }

// SynonymValue is one line of a DescribeConfigs entry.
type SynonymValue struct {
	Name   string
	Value  string
	Null   bool
	Source Source
}

// Entry is what DescribeConfigs says of one definition.
type Entry struct {
	Definition *Definition
	Name       string
	Value      string // empty where Null
	Null       bool   // no value, or a sensitive one
	Source     Source
	ReadOnly   bool
	Sensitive  bool
	Type       Type
	Doc        string
	Synonyms   []SynonymValue // nearest first; the first is the value itself
}
