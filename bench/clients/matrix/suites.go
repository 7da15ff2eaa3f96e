package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/bench/clients/e2e"
)

// suite is a set of tests that one program runs.
type suite struct {
	name  string
	tests func() []test
}

// test is one process. run returns the outcome and the reason for anything but a pass.
type test struct {
	name, needs string
	run         func() (outcome, reason string)
}

func suites(dir, addr string) []suite {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		port = "9092"
	}
	numeric := "127.0.0.1:" + port
	return []suite{
		{"kgo", func() []test { return kgoTests(numeric) }},
		{"kafka-go", func() []test { return kafkaGoTests(addr) }},
		{"librdkafka", func() []test { return librdkafkaTests(numeric, "classic", false) }},
		{"idempotent", func() []test { return librdkafkaTests(numeric, "classic", true) }},
		{"consumer", func() []test { return librdkafkaTests(numeric, "consumer", false) }},
		{"scripts", func() []test { return scriptTests(dir, numeric) }},
	}
}

// process runs a command with a limit; its output comes back joined.
func process(limit time.Duration, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v", limit)
	}
	return out.String(), err
}

// lastWords picks the line of a log that says most about a failure.
func lastWords(out string, err error) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	telling := regexp.MustCompile(`(?i)(_test\.go:\d+|error|fail|panic|expected|timeout|timed out|unexpected|assert)`)
	noise := regexp.MustCompile(`^(FAIL|--- (FAIL|PASS|SKIP)|=== )|NOT DELETING TOPIC`)
	for _, line := range slices.Backward(lines) {
		if text := strings.TrimSpace(line); telling.MatchString(text) && !noise.MatchString(text) {
			return text
		}
	}
	return err.Error()
}

// moduleDir is where the go command keeps a package of this module's dependencies.
func moduleDir(pkg string) (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	return strings.TrimSpace(string(out)), err
}

// goTests makes one process a top-level test of a compiled test binary.
func goTests(binary, dir string, env []string, limit time.Duration, names []string, needs func(string) string) []test {
	var tests []test
	for _, name := range names {
		tests = append(tests, test{name, needs(name), func() (string, string) {
			parts := strings.Split(name, "/")
			for i := range parts {
				parts[i] = "^" + parts[i] + "$"
			}
			args := []string{"-test.v", "-test.timeout", limit.String(), "-test.run", strings.Join(parts, "/")}
			if !strings.Contains(name, "SASL") { // such a part of a test is a test of its own here
				args = append(args, "-test.skip", "^"+name+"$/SASL")
			}
			out, err := process(limit, dir, env, binary, args...)
			switch {
			case err != nil:
				return "fail", lastWords(out, err)
			case !strings.Contains(out, "--- PASS: "+name) && strings.Contains(out, "--- SKIP"):
				return "skip", lastWords(out, errors.New("the test skips itself"))
			case strings.Contains(out, "no tests to run"):
				return "fail", "no such test"
			}
			return "pass", ""
		}})
	}
	return tests
}

func kgoTests(addr string) []test {
	plain := strings.Fields(`Ping Issue325 Issue337 Issue434 Issue648 Issue769 Issue810 Issue831 Issue865
		ConsumeTopicRetrieval ConsumeTopicRetrieval_Many AddRemovePartitions DirectPartitionPurge Pooling
		PauseIssue489 PauseIssueOct2023 Client_Produce Client_ProduceLargeMessages IssueFetchLargerThanBrokerMaxReadBytes
		IssueProduceBrokerTooOldFailsRecords IssueProduceSyncManualPartitionNegativeDoesNotPanic ConsumeMaxDecompressBatchBytes`)
	// Two of these are here for what comes with groups: ConsumeRegex wants the topic __consumer_offsets, Issue1034 a coordinator.
	groups := strings.Fields(`ConsumeRegex Issue1034 Issue523 GroupSimple HookPollStart UnknownGroupOffsetFetchPinned GroupETL`)
	binary := filepath.Join(e2e.Cache(), "gotests", "kgo.test")
	listed, _ := exec.Command(binary, "-test.list", ".").Output()
	var names []string
	needs := map[string]string{}
	add := func(short []string, need string) {
		for _, s := range short {
			name := "Test" + s
			if !strings.Contains(string(listed), name+"\n") {
				name = "Test_" + s // some are written so
			}
			names, needs[name] = append(names, name), need
		}
	}
	add(plain, "")
	add(groups, "groups")
	add([]string{"848RegexBrokerResolves"}, "consumer groups")
	add([]string{"TxnEtl"}, "transactions")
	dir, err := moduleDir("github.com/twmb/franz-go/pkg/kgo")
	if err != nil {
		dir = "."
	}
	env := []string{"KGO_SEEDS=" + addr, "KGO_TEST_RF=1", "KGO_LOG_LEVEL=none", "KGO_TEST_RECORDS=50000"}
	return goTests(binary, dir, env, 400*time.Second, names, func(name string) string { return needs[name] })
}

func kafkaGoTests(addr string) []test {
	binary := filepath.Join(e2e.Cache(), "gotests", "kafkago.test")
	listed, err := exec.Command(binary, "-test.list", "^Test").Output()
	if err != nil {
		return []test{{"all", "", func() (string, string) { return "not run", "setup.sh gotests did not build it" }}}
	}
	dir, err := moduleDir("github.com/segmentio/kafka-go")
	if err != nil {
		dir = "."
	}
	// By what they ask of the broker; the rest of the names that sound alike test encodings only.
	groups := strings.Fields(`TestConsumerGroup TestConsumerGroupErrors TestClientDeleteGroups TestClientDescribeGroups
		TestClientFindCoordinator TestClientHeartbeat TestClientJoinGroup TestClientLeaveGroup TestClientListGroups
		TestClientOffsetCommit TestClientDeleteOffset TestClientSyncGroup TestReaderConsumerGroup TestRebalanceTooManyConsumers
		TestConsumerGroupWithMissingTopic TestConsumerGroupWithTopic TestConsumerGroupWithGroupTopicsSingle
		TestConsumerGroupWithGroupTopicsMultiple TestCloseLeavesGroup TestGenerationExitsOnPartitionChange
		TestGenerationStartsFunctionAfterClosed TestConn TestClient
		TestOffsetFetchRequestWithNoTopic TestOffsetFetchRequestWithOneTopic`)
	saslPart := "TestWriter/writing_a_message_with_SASL_Plain_authentication"
	byNeed := map[string][]string{
		"groups":        groups,
		"transactions":  strings.Fields("TestClientAddOffsetsToTxn TestClientAddPartitionsToTxn TestClientTxnOffsetCommit TestClientInitProducerId TestClientEndTxn"),
		"sasl":          {"TestUnsupportedSASLMechanism", saslPart},
		"acls":          strings.Fields("TestClientCreateACLs TestClientDeleteACLs TestClientDescribeACLs"),
		"quotas":        {"TestClientAlterClientQuotas"},
		"scram":         strings.Fields("TestAlterUserScramCredentials TestDescribeUserScramCredentials"),
		"reassignments": strings.Fields("TestClientAlterPartitionReassignments TestClientAlterPartitionReassignmentsMultiTopics TestClientListPartitionReassignments"),
		"elections":     {"TestClientElectLeaders"},
	}
	needs := func(name string) string {
		for need, names := range byNeed {
			if slices.Contains(names, name) {
				return need
			}
		}
		return ""
	}
	names := append(strings.Fields(string(listed)), saslPart)
	return goTests(binary, dir, []string{"KAFKA_SKIP_NETTEST=1", "KAFKA_VERSION=4.0.0"}, 120*time.Second, names, needs)
}

// librdkafkaTests runs the numbers that make sense against one broker, with a group protocol; idempotent makes every
// producer so.
func librdkafkaTests(addr, protocol string, idempotent bool) []test {
	plain := strings.Fields("0001 0003 0005 0008 0012 0013 0015 0017 0031 0034 0036 0041 0044 0048 0054 0070 0073 0094")
	groups := strings.Fields("0018 0019 0022 0029 0030 0040 0090 0102")
	dir := filepath.Join(e2e.Cache(), "librdkafka", "tests")
	conf := "bootstrap.servers=" + addr + "\nbroker.address.family=v4\ntest.topic.prefix=rdk\ntest.topic.random=true\n"
	var tests []test
	add := func(number, needs string) {
		tests = append(tests, test{number, needs, func() (string, string) {
			if _, err := os.Stat(filepath.Join(dir, "test-runner")); err != nil {
				return "not run", "setup.sh librdkafka did not build it"
			}
			if err := os.WriteFile(filepath.Join(dir, "test.conf"), []byte(conf), 0o644); err != nil {
				return "fail", err.Error()
			}
			args := []string{"-L", "-p1"}
			if idempotent {
				args = append(args, "-P")
			}
			env := []string{"TESTS=" + number, "TEST_KAFKA_VERSION=4.3.0", "TEST_LEVEL=2", "TEST_CONSUMER_GROUP_PROTOCOL=" + protocol, "LD_LIBRARY_PATH=../src:../src-cpp"}
			out, err := process(600*time.Second, dir, env, "./test-runner", args...)
			switch {
			case err != nil:
				return "fail", lastWords(out, err)
			case !regexp.MustCompile(number + `_\w+\s*\|\s*PASSED`).MatchString(out): // the run as a whole says PASSED all the same
				return "skip", lastWords(out, errors.New("the test skips itself"))
			}
			return "pass", ""
		}})
	}
	for _, number := range plain {
		add(number, "")
	}
	need := "groups"
	if protocol == "consumer" {
		need = "consumer groups"
	}
	for _, number := range groups {
		add(number, need)
	}
	for _, number := range strings.Fields("0061 0103 0129") {
		add(number, "transactions")
	}
	return tests
}

// scriptTests are this project's own checks with real clients: scripts/NAME prints "ok WHAT", "FAIL WHAT: why" or
// "needs ABILITY WHAT" a line.
func scriptTests(dir, addr string) []test {
	files, _ := filepath.Glob(filepath.Join(dir, "scripts", "[a-z]*.*"))
	slices.Sort(files)
	var tests []test
	cache := e2e.Cache()
	java := filepath.Join(cache, "java", "lib") + "/*"
	env := []string{
		"NODE_PATH=" + filepath.Join(cache, "node", "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING=1", "KAFKA_CLASSPATH=" + java,
		"PYTHONDONTWRITEBYTECODE=1",
	}
	runners := map[string]string{".py": filepath.Join(cache, "venv", "bin", "python"), ".js": "node", ".sh": "bash"}
	for _, file := range files {
		runner, ok := runners[filepath.Ext(file)]
		if !ok || filepath.Base(file) == "check.py" {
			continue
		}
		tests = append(tests, test{filepath.Base(file), "", func() (string, string) {
			if _, err := exec.LookPath(runner); err != nil {
				return "not run", runner + " is missing"
			}
			absolute, err := filepath.Abs(file)
			if err != nil {
				return "fail", err.Error()
			}
			out, err := process(600*time.Second, os.TempDir(), env, runner, absolute, addr)
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "FAIL ") {
					return "fail", strings.TrimSpace(line)
				}
				if strings.HasPrefix(line, "not run: ") {
					return "not run", strings.TrimSpace(strings.TrimPrefix(line, "not run: "))
				}
			}
			if err != nil {
				return "fail", lastWords(out, err)
			}
			return "pass", ""
		}})
	}
	return tests
}
