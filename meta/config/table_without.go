package config

import (
	"fmt"
	"strings"
)

// brokerWithoutEffect lists the settings of brokers of Apache Kafka 4.4 that do nothing here. They are known all the
// same: a file of settings written for Kafka is taken as far as it asks for nothing that is not there, and what asks
// for it is refused with the reason.
func brokerWithoutEffect() []*Definition {
	var list []*Definition
	accept := func(doc, rows string) {
		list = append(list, definitionsOf(NoMeaning, doc+" Accepted, and changes nothing.", "", rows)...)
	}
	refuse := func(doc, reason, rows string) {
		list = append(list, definitionsOf(Refused, doc+" Only the default is taken: "+reason+".", reason, rows)...)
	}
	refuse("Of TLS, which does not exist here yet.",
		"TLS does not exist here yet: leave it out, and put the broker behind a proxy or on a network of its own", rowsOfTLS)
	refuse("Of SASL, which does not exist here yet.",
		"authentication does not exist here yet: leave it out", rowsOfSASL)
	refuse("Of who may do what, which is not told apart here yet.",
		"users are not told apart here yet: leave it out", rowsOfUsers)
	accept("Of authentication, which does not exist here yet.", rowsOfTokens)
	refuse("A class of Java to be loaded.",
		"classes of Java cannot be loaded here: leave it out", rowsOfClasses)
	refuse("The directory of the cluster state.",
		"the cluster state is in the first of log.dirs: leave it out, and name that directory first", rowsOfMetaDirectory)
	refuse("The brokers that keep the cluster state.",
		"a broker is a cluster of its own here so far: leave it out", rowsOfVoters)
	refuse("The protocols of groups.",
		"classic and consumer groups are always possible here: leave it out; group.consumer.migration.policy says whether a group may change", rowsOfProtocols)
	refuse("Of transactions, which do not exist here yet.",
		"transactions do not exist here yet: leave it out", rowsOfTwoPhase)
	refuse("Whether there is tiered storage.",
		"there is no tiered storage here: leave it out", rowsOfTierEnable)
	accept("Of tiered storage, which does not exist here.", rowsOfTiers)
	accept("Of transactions, which do not exist here yet.", rowsOfTransactions)
	accept("Of share groups, which do not exist here yet.", rowsOfShares)
	accept("Of groups of the streams protocol, which do not exist here yet; Kafka Streams works with groups of the classic protocol.", rowsOfStreams)
	accept("Of the topic of offsets and the threads of its coordinator. Groups and offsets are in the cluster state here.", rowsOfOffsets)
	accept("Of the controllers and their log. The cluster state here bounds and compacts its log by itself.", rowsOfQuorum)
	accept("Of replication among brokers or directories. Partitions have one replica here.", rowsOfReplication)
	accept("Of threads and queues. Event loops (millrace.net.loops) and workers take their place here, and queued.max.request.bytes bounds what waits.", rowsOfThreads)
	accept("Of when and how files are read and written. The broker decides that here.", rowsOfDisk)
	accept("Of sockets. The kernel fits their buffers to each connection here.", rowsOfSockets)
	accept("Of measuring. Metrics are at millrace.admin.listen here.", rowsOfMeasures)
	return list
}

// definitionsOf makes definitions of rows. The rows are the table's own; a test makes sure that they are sound.
func definitionsOf(standing Standing, doc, reason, rows string) []*Definition {
	var list []*Definition
	for line := range strings.Lines(strings.TrimSpace(rows)) {
		fields := strings.Fields(line)
		d := &Definition{Name: fields[0], Standing: standing, Importance: Low, Doc: doc, Reason: reason}
		for t := Bool; t <= Password; t++ {
			if t.String() == fields[1] {
				d.Type = t
			}
		}
		if fields[2] == "none" {
			d.Null = true
		} else if _, err := fmt.Sscanf(fields[2], "%q", &d.Default); err != nil {
			panic(fmt.Sprintf("config: row %q: %v", line, err))
		}
		for _, mark := range fields[3:] {
			d.Dynamic = d.Dynamic || mark == "dynamic"
			d.Sensitive = d.Sensitive || mark == "hidden"
		}
		list = append(list, d)
	}
	return list
}

// The rows: name, type, default, and whether the setting may be altered at run time or hides its value.
const (
	rowsOfTLS = `
ssl.allow.dn.changes boolean "false"
ssl.allow.san.changes boolean "false"
ssl.cipher.suites list "" dynamic
ssl.client.auth string "none" dynamic
ssl.enabled.protocols list "TLSv1.2,TLSv1.3" dynamic
ssl.endpoint.identification.algorithm string "https" dynamic
ssl.engine.factory.class class none dynamic
ssl.key.password password none dynamic hidden
ssl.keymanager.algorithm string "SunX509" dynamic
ssl.keystore.certificate.chain password none dynamic hidden
ssl.keystore.key password none dynamic hidden
ssl.keystore.location string none dynamic
ssl.keystore.password password none dynamic hidden
ssl.keystore.type string "JKS" dynamic
ssl.principal.mapping.rules string "DEFAULT"
ssl.protocol string "TLSv1.3" dynamic
ssl.provider string none dynamic
ssl.secure.random.implementation string none dynamic
ssl.trustmanager.algorithm string "PKIX" dynamic
ssl.truststore.certificates password none dynamic hidden
ssl.truststore.location string none dynamic
ssl.truststore.password password none dynamic hidden
ssl.truststore.type string "JKS" dynamic
`
	rowsOfSASL = `
connections.max.reauth.ms long "0"
sasl.client.callback.handler.class class none
sasl.enabled.mechanisms list "GSSAPI" dynamic
sasl.jaas.config password none dynamic hidden
sasl.kerberos.kinit.cmd string "/usr/bin/kinit" dynamic
sasl.kerberos.min.time.before.relogin long "60000" dynamic
sasl.kerberos.principal.to.local.rules list "DEFAULT" dynamic
sasl.kerberos.service.name string none dynamic
sasl.kerberos.ticket.renew.jitter double "0.05" dynamic
sasl.kerberos.ticket.renew.window.factor double "0.8" dynamic
sasl.login.callback.handler.class class none
sasl.login.class class none
sasl.login.connect.timeout.ms int none
sasl.login.read.timeout.ms int none
sasl.login.refresh.buffer.seconds short "300" dynamic
sasl.login.refresh.min.period.seconds short "60" dynamic
sasl.login.refresh.window.factor double "0.8" dynamic
sasl.login.refresh.window.jitter double "0.05" dynamic
sasl.login.retry.backoff.max.ms long "10000"
sasl.login.retry.backoff.ms long "100"
sasl.mechanism.controller.protocol string "GSSAPI"
sasl.mechanism.inter.broker.protocol string "GSSAPI" dynamic
sasl.oauthbearer.allow.unverified.audience boolean "false"
sasl.oauthbearer.allow.unverified.issuer boolean "false"
sasl.oauthbearer.assertion.algorithm string "RS256"
sasl.oauthbearer.assertion.claim.aud string none
sasl.oauthbearer.assertion.claim.exp.seconds int "300"
sasl.oauthbearer.assertion.claim.iss string none
sasl.oauthbearer.assertion.claim.jti.include boolean "false"
sasl.oauthbearer.assertion.claim.nbf.seconds int "60"
sasl.oauthbearer.assertion.claim.sub string none
sasl.oauthbearer.assertion.file string none
sasl.oauthbearer.assertion.private.key.file string none
sasl.oauthbearer.assertion.private.key.passphrase password none hidden
sasl.oauthbearer.assertion.template.file string none
sasl.oauthbearer.client.credentials.client.id string none
sasl.oauthbearer.client.credentials.client.secret password none hidden
sasl.oauthbearer.clock.skew.seconds int "30"
sasl.oauthbearer.expected.audience list ""
sasl.oauthbearer.expected.issuer string none
sasl.oauthbearer.jwks.endpoint.refresh.ms long "3600000"
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long "10000"
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long "100"
sasl.oauthbearer.jwks.endpoint.url string none
sasl.oauthbearer.jwt.retriever.class class "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
sasl.oauthbearer.jwt.validator.class class "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"
sasl.oauthbearer.scope string none
sasl.oauthbearer.scope.claim.name string "scope"
sasl.oauthbearer.sub.claim.name string "sub"
sasl.oauthbearer.token.endpoint.url string none
sasl.server.callback.handler.class class none
sasl.server.max.receive.size int "524288"
`
	rowsOfUsers = `
authorizer.class.name string ""
delegation.token.secret.key password none hidden
principal.builder.class class "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder" dynamic
security.inter.broker.protocol string "PLAINTEXT"
security.providers string none
`
	rowsOfTokens = `
connection.failed.authentication.delay.ms int "100"
delegation.token.expiry.check.interval.ms long "3600000"
delegation.token.expiry.time.ms long "86400000"
delegation.token.max.lifetime.ms long "604800000"
`
	rowsOfClasses = `
alter.config.policy.class.name class none
client.quota.callback.class class none
config.providers list "" dynamic
create.topic.policy.class.name class none
group.streams.topology.description.plugin.class class none
kafka.metrics.reporters list ""
metric.reporters list "org.apache.kafka.common.metrics.JmxReporter" dynamic
replica.selector.class string none
`
	rowsOfMetaDirectory = `
metadata.log.dir string none
`
	rowsOfVoters = `
controller.quorum.auto.join.enable boolean "false"
controller.quorum.bootstrap.servers list ""
controller.quorum.voters list ""
`
	rowsOfProtocols = `
group.coordinator.rebalance.protocols list "classic,consumer,streams"
`
	rowsOfTwoPhase = `
transaction.two.phase.commit.enable boolean "false"
`
	rowsOfTierEnable = `
remote.log.storage.system.enable boolean "false"
`
	rowsOfTiers = `
follower.fetch.last.tiered.offset.enable boolean "false" dynamic
remote.fetch.max.wait.ms int "500" dynamic
remote.list.offsets.request.timeout.ms long "30000" dynamic
remote.log.index.file.cache.total.size.bytes long "1073741824" dynamic
remote.log.manager.copier.thread.pool.size int "10" dynamic
remote.log.manager.copy.max.bytes.per.second long "9223372036854775807" dynamic
remote.log.manager.copy.quota.window.num int "11"
remote.log.manager.copy.quota.window.size.seconds int "1"
remote.log.manager.expiration.thread.pool.size int "10" dynamic
remote.log.manager.fetch.max.bytes.per.second long "9223372036854775807" dynamic
remote.log.manager.fetch.quota.window.num int "11"
remote.log.manager.fetch.quota.window.size.seconds int "1"
remote.log.manager.follower.thread.pool.size int "2" dynamic
remote.log.manager.task.interval.ms long "30000"
remote.log.manager.thread.pool.size int "2"
remote.log.metadata.custom.metadata.max.bytes int "128"
remote.log.metadata.manager.class.name string "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
remote.log.metadata.manager.class.path string none
remote.log.metadata.manager.impl.prefix string "rlmm.config."
remote.log.metadata.manager.listener.name string none
remote.log.reader.max.pending.tasks int "100"
remote.log.reader.threads int "10" dynamic
remote.log.storage.manager.class.name string none
remote.log.storage.manager.class.path string none
remote.log.storage.manager.impl.prefix string "rsm.config."
`
	rowsOfTransactions = `
add.partitions.to.txn.retry.backoff.max.ms int "100"
add.partitions.to.txn.retry.backoff.ms int "20"
transaction.abort.timed.out.transaction.cleanup.interval.ms int "10000"
transaction.max.timeout.ms int "900000"
transaction.partition.verification.enable boolean "true" dynamic
transaction.remove.expired.transaction.cleanup.interval.ms int "3600000"
transaction.state.log.load.buffer.size int "5242880"
transaction.state.log.min.isr int "2"
transaction.state.log.num.partitions int "50"
transaction.state.log.replication.factor short "3"
transaction.state.log.segment.bytes int "104857600"
transactional.id.expiration.ms int "604800000"
`
	rowsOfShares = `
errors.deadletterqueue.auto.create.topics.enable boolean "false" dynamic
errors.deadletterqueue.topic.name.prefix string "dlq." dynamic
group.share.assignment.interval.ms int "1000" dynamic
group.share.assignors list "simple"
group.share.delivery.count.limit int "5"
group.share.heartbeat.interval.ms int "5000"
group.share.max.assignment.interval.ms int "15000"
group.share.max.delivery.count.limit int "10"
group.share.max.heartbeat.interval.ms int "15000"
group.share.max.partition.max.record.locks int "4000"
group.share.max.record.lock.duration.ms int "60000"
group.share.max.session.timeout.ms int "60000"
group.share.max.share.sessions int "2000"
group.share.max.size int "200"
group.share.min.assignment.interval.ms int "0"
group.share.min.delivery.count.limit int "2"
group.share.min.heartbeat.interval.ms int "5000"
group.share.min.partition.max.record.locks int "100"
group.share.min.record.lock.duration.ms int "15000"
group.share.min.session.timeout.ms int "45000"
group.share.partition.max.record.locks int "2000"
group.share.record.lock.duration.ms int "30000"
group.share.session.timeout.ms int "45000"
share.coordinator.append.linger.ms int "-1"
share.coordinator.cached.buffer.max.bytes int "1048588" dynamic
share.coordinator.load.buffer.size int "5242880"
share.coordinator.snapshot.update.records.per.snapshot int "500"
share.coordinator.state.topic.compression.codec int "0"
share.coordinator.state.topic.min.isr short "2"
share.coordinator.state.topic.num.partitions int "50"
share.coordinator.state.topic.replication.factor short "3"
share.coordinator.state.topic.segment.bytes int "104857600"
share.coordinator.threads int "1"
share.coordinator.write.timeout.ms int "5000"
share.fetch.purgatory.purge.interval.requests int "1000"
`
	rowsOfStreams = `
group.streams.assignment.interval.ms int "1000" dynamic
group.streams.assignors list "sticky"
group.streams.heartbeat.interval.ms int "5000"
group.streams.initial.rebalance.delay.ms int "3000"
group.streams.max.assignment.interval.ms int "15000"
group.streams.max.heartbeat.interval.ms int "15000"
group.streams.max.session.timeout.ms int "60000"
group.streams.max.size int "2147483647"
group.streams.max.standby.replicas int "2"
group.streams.min.assignment.interval.ms int "0"
group.streams.min.heartbeat.interval.ms int "5000"
group.streams.min.session.timeout.ms int "45000"
group.streams.num.standby.replicas int "0"
group.streams.rack.aware.assignment.tags list ""
group.streams.session.timeout.ms int "45000"
`
	rowsOfOffsets = `
group.coordinator.append.linger.ms int "-1"
group.coordinator.background.threads int "2"
group.coordinator.cached.buffer.max.bytes int "1048588" dynamic
group.coordinator.threads int "4"
offsets.commit.timeout.ms int "5000"
offsets.load.buffer.size int "5242880"
offsets.topic.compression.codec int "0"
offsets.topic.num.partitions int "50"
offsets.topic.replication.factor short "3"
offsets.topic.segment.bytes int "104857600"
`
	rowsOfQuorum = `
auto.leader.rebalance.enable boolean "true"
broker.heartbeat.interval.ms int "2000"
broker.session.timeout.ms int "9000"
controlled.shutdown.enable boolean "true"
controller.listener.names list none
controller.quorum.append.linger.ms int "25"
controller.quorum.election.backoff.max.ms int "1000"
controller.quorum.election.timeout.ms int "1000"
controller.quorum.fetch.max.bytes int "1048576"
controller.quorum.fetch.snapshot.max.bytes int "1048576"
controller.quorum.fetch.timeout.ms int "2000"
controller.quorum.request.timeout.ms int "2000"
controller.quorum.retry.backoff.ms int "20"
controller.quota.window.num int "11"
controller.quota.window.size.seconds int "1"
controller.socket.timeout.ms int "30000"
early.start.listeners list none
initial.broker.registration.timeout.ms int "60000"
inter.broker.listener.name string none
leader.imbalance.check.interval.seconds long "300"
log.dir.failure.timeout.ms long "30000"
metadata.log.max.record.bytes.between.snapshots long "20971520"
metadata.log.max.snapshot.interval.ms long "3600000"
metadata.log.segment.bytes int "1073741824"
metadata.log.segment.ms long "604800000"
metadata.max.idle.interval.ms int "500"
metadata.max.retention.bytes long "104857600"
metadata.max.retention.ms long "604800000"
process.roles list none
`
	rowsOfReplication = `
follower.replication.throttled.rate long "9223372036854775807" dynamic
leader.replication.throttled.rate long "9223372036854775807" dynamic
alter.log.dirs.replication.quota.window.num int "11"
alter.log.dirs.replication.quota.window.size.seconds int "1"
num.replica.alter.log.dirs.threads int none
num.replica.fetchers int "1" dynamic
replica.fetch.backoff.ms int "1000"
replica.fetch.max.bytes int "1048576"
replica.fetch.min.bytes int "1"
replica.fetch.response.max.bytes int "10485760"
replica.fetch.wait.max.ms int "500"
replica.high.watermark.checkpoint.interval.ms long "5000"
replica.lag.time.max.ms long "30000"
replica.socket.receive.buffer.bytes int "65536"
replica.socket.timeout.ms int "30000"
replication.quota.window.num int "11"
replication.quota.window.size.seconds int "1"
request.timeout.ms int "30000"
socket.connection.setup.timeout.max.ms long "30000"
socket.connection.setup.timeout.ms long "10000"
`
	rowsOfThreads = `
background.threads int "10" dynamic
delete.records.purgatory.purge.interval.requests int "1"
fetch.purgatory.purge.interval.requests int "1000"
log.cleaner.threads int "1" dynamic
max.request.partition.size.limit int "2000"
num.io.threads int "8" dynamic
num.network.threads int "3" dynamic
num.recovery.threads.per.data.dir int "2" dynamic
producer.purgatory.purge.interval.requests int "1000"
queued.max.requests int "500"
`
	rowsOfDisk = `
log.cleaner.io.buffer.load.factor double "0.9" dynamic
log.cleaner.io.buffer.size int "524288" dynamic
log.flush.offset.checkpoint.interval.ms int "60000"
log.flush.scheduler.interval.ms long "9223372036854775807"
log.flush.start.offset.checkpoint.interval.ms int "60000"
`
	rowsOfSockets = `
socket.listen.backlog.size int "50"
socket.receive.buffer.bytes int "102400"
socket.send.buffer.bytes int "102400"
`
	rowsOfMeasures = `
kafka.metrics.polling.interval.secs int "10"
metrics.num.samples int "2"
metrics.recording.level string "INFO"
metrics.sample.window.ms long "30000"
quota.window.num int "11"
quota.window.size.seconds int "1"
telemetry.max.bytes int "1048576"
`
)
