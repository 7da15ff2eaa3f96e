package e2e

import (
	"os"
	"path/filepath"
)

// Codecs that a producer can be told to use.
func codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// Client is one program of the run.
type Client struct {
	Name    string
	Command []string // what stands before produce or consume
	Env     []string
	Part    string          // the part of setup.sh that it needs, "" for none
	Lacks   map[string]bool // codecs that it cannot produce
	Whole   bool            // produces the whole input in reasonable time; others all files and a part of the lines
	Fast    bool            // can consume the whole input in reasonable time
}

// Cache is where setup.sh puts what clients need.
func Cache() string {
	if dir := os.Getenv("MILLRACE_CLIENTS_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "millrace-clients")
	}
	return filepath.Join(home, ".cache", "millrace-clients")
}

// Clients lists the programs; dir is this package's directory and franz the built franz-go client.
func Clients(dir, franz string) []Client {
	cache := Cache()
	python := filepath.Join(cache, "venv", "bin", "python")
	script := func(name string) string { return filepath.Join(dir, "clients", name) }
	java := []string{"java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(cache, "java", "classes") + ":" + filepath.Join(cache, "java", "lib") + "/*", "E2E"}
	return []Client{
		{Name: "franz-go", Command: []string{franz}, Whole: true, Fast: true},
		{Name: "apache-kafka", Command: java, Part: "java", Whole: true, Fast: true},
		{Name: "confluent-kafka", Command: []string{python, "-B", script("confluent.py")}, Part: "python", Whole: true, Fast: true},
		{Name: "kafka-python", Command: []string{python, "-B", script("kafka_python.py")}, Part: "python"},
		{
			Name: "kafkajs", Command: []string{"node", script("kafkajs.js")}, Part: "node", Lacks: map[string]bool{"zstd": true},
			Env: []string{"NODE_PATH=" + filepath.Join(cache, "node", "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING=1"},
		},
	}
}
