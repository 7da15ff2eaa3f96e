// Command millrace is a Kafka-wire-compatible broker and its tools.
package main

import (
	"os"

	"millrace/cmd/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Main(version))
}
