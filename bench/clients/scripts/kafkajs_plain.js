// kafkajs: admin, acks -1/1/0, gzip, idempotent, values, headers, nulls, times, offsets by time, deleteRecords.
const assert = require('assert')
const crypto = require('crypto')
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const addr = process.argv[2]
const kafka = new Kafka({ clientId: 'script', brokers: [addr], logLevel: logLevel.NOTHING })
const fresh = prefix => `script-${prefix}-${crypto.randomBytes(6).toString('hex')}`
let failed = false

async function one(what, f) {
  try {
    await f()
    console.log('ok', what)
  } catch (err) {
    failed = true
    console.log(`FAIL ${what}: ${err.message.split('\n').join(' ')}`)
  }
}

const base = Date.now() - 60_000
const records = () => [
  { timestamp: `${base}`, key: null, value: 'value' },
  { timestamp: `${base + 1}`, key: '', value: 'value' },
  { timestamp: `${base + 2}`, key: 'key', value: null },
  { timestamp: `${base + 3}`, key: 'key', value: '' },
  { timestamp: `${base + 4}`, key: 'key', value: 'v', headers: { h: ['1', '2', '1'], e: '', ü: 'é' } },
  ...Array.from({ length: 100 }, (_, i) => ({ timestamp: `${base + 10 + i}`, key: `k${i}`, value: `v${i}` })),
].map(r => ({ partition: 0, ...r }))

// Reads a partition by the client's own fetch requests, without a group.
async function read(topic, offset) {
  const { createRequire } = require('module')
  const inside = createRequire(require.resolve('kafkajs'))
  const cluster = new (inside('./src/cluster'))({
    logger: kafka.logger(), socketFactory: inside('./src/network/socketFactory')(), brokers: [addr], connectionTimeout: 10000,
    authenticationTimeout: 10000, requestTimeout: 30000, enforceRequestTimeout: true, clientId: 'script', ssl: null, sasl: null,
    retry: {}, metadataMaxAge: 300000, allowAutoTopicCreation: false,
  })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const broker = await cluster.findBroker({ nodeId: Object.keys(cluster.findLeaderForPartitions(topic, [0]))[0] })
  const { responses } = await broker.fetch({
    maxWaitTime: 200, minBytes: 1, maxBytes: 10 << 20, isolationLevel: 1,
    topics: [{ topic, partitions: [{ partition: 0, fetchOffset: `${offset}`, maxBytes: 10 << 20 }] }],
  })
  await cluster.disconnect()
  return responses[0].partitions[0].messages
}

const text = b => (b === null ? null : b.toString())

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  const create = async prefix => {
    const topic = fresh(prefix)
    assert.strictEqual(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true }), true)
    return topic
  }
  const roundTrip = async (options, send) => {
    const topic = await create('js')
    const producer = kafka.producer(options)
    await producer.connect()
    const sent = records()
    const [answer] = await producer.send({ topic, messages: sent, ...send })
    await producer.disconnect()
    if (send.acks !== 0) assert.strictEqual(answer.baseOffset, '0')
    let got = []
    for (let i = 0; i < 50 && got.length < sent.length; i++) got = await read(topic, 0)
    assert.deepStrictEqual(got.map(m => m.offset), sent.map((_, i) => `${i}`))
    assert.deepStrictEqual(got.map(m => [m.timestamp, text(m.key), text(m.value)]), sent.map(m => [m.timestamp, m.key, m.value]))
    const h = got[4].headers
    assert.deepStrictEqual([h.h.map(text), text(h.e), text(h['ü'])], [['1', '2', '1'], '', 'é'])
  }
  for (const acks of [-1, 1, 0]) await one(`acks ${acks}`, () => roundTrip({}, { acks }))
  await one('gzip', () => roundTrip({}, { compression: CompressionTypes.GZIP }))
  await one('idempotent', () => roundTrip({ idempotent: true, maxInFlightRequests: 1 }, {}))
  await one('by time', async () => {
    const topic = await create('time')
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: records() })
    await producer.disconnect()
    for (const [ask, want] of [[base, '0'], [base + 3, '3'], [base + 5, '5'], [base + 15, '10']]) {
      assert.deepStrictEqual(await admin.fetchTopicOffsetsByTimestamp(topic, ask), [{ partition: 0, offset: want }])
    }
    const [offsets] = await admin.fetchTopicOffsets(topic)
    assert.deepStrictEqual([offsets.low, offsets.high], ['0', '105'])
  })
  await one('deleteRecords', async () => {
    const topic = await create('delete')
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: records() })
    await producer.disconnect()
    await admin.fetchTopicOffsets(topic) // loads the topic's metadata, without which this client finds no leader
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '7' }] })
    const [offsets] = await admin.fetchTopicOffsets(topic)
    assert.deepStrictEqual([offsets.low, offsets.high], ['7', '105'])
  })
  await one('admin', async () => {
    const topic = await create('admin')
    assert.ok((await admin.listTopics()).includes(topic))
    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    for (let i = 0; ; i++) {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      if (topics[0].partitions.length === 3) break
      assert.ok(i < 100, 'three partitions do not show up')
    }
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: 'retention.ms', value: '1234' }] }] })
    for (let i = 0; ; i++) {
      const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }] })
      if (resources[0].configEntries[0].configValue === '1234') break
      assert.ok(i < 100, 'the config does not show up')
    }
    assert.strictEqual((await admin.describeCluster()).brokers.length, 1)
    await admin.deleteTopics({ topics: [topic] })
  })
  await admin.disconnect()
}

main().then(() => process.exit(failed ? 1 : 0), err => { console.log(`FAIL script: ${err.message}`); process.exit(1) })
