//go:build tools

package clients

// The test suites of these modules are compiled as they are and run against a broker; the imports hold their versions.
import (
	_ "github.com/segmentio/kafka-go"
	_ "github.com/twmb/franz-go/pkg/kgo"
)
