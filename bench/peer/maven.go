package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const log4jVersion = "2.25.3"

// brought are jars that are brought from Maven Central.
type brought struct {
	name     string // of their directory in the user's cache
	artifact string // of Apache Kafka; what it depends on comes with it
	jar      string // by which it is known that they are there
}

// brokerJars are those of the broker, toolJars those of Kafka's own tools.
func brokerJars() brought {
	return brought{"apache-kafka-" + KafkaVersion, "kafka_" + scalaVersion, "kafka_" + scalaVersion + "-" + KafkaVersion + ".jar"}
}

func toolJars() brought {
	return brought{"apache-kafka-tools-" + KafkaVersion, "kafka-tools", "kafka-tools-" + KafkaVersion + ".jar"}
}

// have tells that the jars are in a directory.
func (b brought) have(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, b.jar))
	return err == nil
}

// mavenProject is what Maven needs to know to bring them and what they depend on.
func (b brought) mavenProject() string {
	dependency := func(group, artifact, version string) string {
		return "<dependency><groupId>" + group + "</groupId><artifactId>" + artifact + "</artifactId><version>" + version + "</version></dependency>\n"
	}
	return `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>millrace</groupId><artifactId>bench</artifactId><version>1</version><packaging>pom</packaging><dependencies>
` + dependency("org.apache.kafka", b.artifact, KafkaVersion) +
		dependency("org.apache.logging.log4j", "log4j-api", log4jVersion) +
		dependency("org.apache.logging.log4j", "log4j-core", log4jVersion) +
		dependency("org.apache.logging.log4j", "log4j-slf4j-impl", log4jVersion) +
		"</dependencies></project>\n"
}

// fetch returns the directory with the jars in the user's cache directory. A directory that is there is whole: it is
// filled under another name first.
func (b brought) fetch(ctx context.Context, say func(string)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for Apache Kafka's jars: %w; %s", err, waysOut)
	}
	home := filepath.Join(cache, "millrace", b.name)
	if b.have(home) {
		return home, nil
	}
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("to bring Apache Kafka %s from Maven Central needs Maven, and there is no mvn: install it (on Debian: apt install maven), or %s", KafkaVersion, waysOut)
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "fetching-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	project, jars := filepath.Join(fresh, "pom.xml"), filepath.Join(fresh, "jars")
	if err := os.WriteFile(project, []byte(b.mavenProject()), 0o644); err != nil {
		return "", err
	}
	say("bringing Apache Kafka " + KafkaVersion + " from Maven Central, once, into " + home)
	cmd := exec.CommandContext(ctx, maven, "-B", "-q", "-f", project, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+jars)
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("bring Apache Kafka %s with Maven: %w\n%s\nWithout Maven Central: %s", KafkaVersion, err, endOf(out), waysOut)
	}
	if !b.have(jars) {
		return "", fmt.Errorf("maven brought no %s; %s", b.jar, waysOut)
	}
	if err := os.Rename(jars, home); err != nil && !b.have(home) {
		return "", err // where another run was faster, its jars do
	}
	return home, nil
}

// JavaTools is where Apache Kafka's own tools can be run: java -cp ClassPath CLASS.
type JavaTools struct{ Java, ClassPath, Version string }

// Tools returns Apache Kafka's tools of KafkaVersion, brought as Kafka brings the broker's jars, and with the same
// complaints where that cannot be.
func Tools(ctx context.Context, say func(string)) (*JavaTools, error) {
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := toolJars().fetch(ctx, say)
	if err != nil {
		return nil, err
	}
	return &JavaTools{Java: java.path, ClassPath: filepath.Join(jars, "*"), Version: KafkaVersion}, nil
}

// ParseSettings refuses what is not KEY=VALUE.
func ParseSettings(settings []string) error {
	for _, s := range settings {
		if key, _, ok := strings.Cut(s, "="); !ok || strings.TrimSpace(key) == "" || strings.ContainsAny(s, "\n\r") {
			return fmt.Errorf("%q is not KEY=VALUE", s)
		}
	}
	return nil
}
