// kafkajs as a client of the end-to-end run; e2e/doc.go says what its arguments mean.
const fs = require('fs')
const crypto = require('crypto')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4js')
const fzstd = require('fzstd')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async () => { throw new Error('no zstd encoder') },
  decompress: async buffer => Buffer.from(fzstd.decompress(buffer)),
})

function* read(path) {
  const data = fs.readFileSync(path)
  let at = 0
  const take = () => {
    const n = data.readInt32BE(at)
    at += 4
    if (n < 0) return null
    const piece = data.subarray(at, at + n)
    at += n
    return piece
  }
  while (at < data.length) {
    const timestamp = data.readBigInt64BE(at)
    at += 8
    const message = { timestamp: timestamp.toString(), partition: 0, key: take(), value: take(), headers: {} }
    const count = data.readInt32BE(at)
    at += 4
    for (let i = 0; i < count; i++) {
      const name = take().toString()
      const value = take()
      if (name in message.headers) {
        message.headers[name] = [].concat(message.headers[name], [value])
      } else {
        message.headers[name] = value
      }
    }
    yield message
  }
}

async function produce(kafka, topic, path, codec) {
  const names = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 }
  const options = codec === 'default' ? {} : { compression: names[codec] }
  if (codec !== 'default' && options.compression === undefined) throw new Error(`no codec ${codec}`)
  const producer = kafka.producer({ idempotent: codec === 'default', maxInFlightRequests: 1 })
  await producer.connect()
  let acked = 0
  let batch = []
  let bytes = 0
  const flush = async () => {
    if (batch.length === 0) return
    const answers = await producer.send({ topic, messages: batch, ...options })
    for (const a of answers) if (a.errorCode !== 0) throw new Error(`error ${a.errorCode}`)
    acked += batch.length
    batch = []
    bytes = 0
  }
  for (const message of read(path)) {
    const size = message.value ? message.value.length : 0
    if (bytes + size > 900_000 || batch.length >= 5000) await flush()
    batch.push(message)
    bytes += size
  }
  await flush()
  await producer.disconnect()
  console.log(acked)
}

// kafkajs consumes in groups only; its fetches are the same without one, so that its own cluster object reads here.
async function consume(kafka, topic, count) {
  const { createRequire } = require('module')
  const inside = createRequire(require.resolve('kafkajs'))
  const Cluster = inside('./src/cluster')
  const createSocketFactory = inside('./src/network/socketFactory')
  const cluster = new Cluster({
    logger: kafka.logger(), socketFactory: createSocketFactory(), brokers: [process.argv[3]], connectionTimeout: 10000,
    authenticationTimeout: 10000, requestTimeout: 30000, enforceRequestTimeout: true, clientId: 'e2e', ssl: null, sasl: null,
    retry: {}, metadataMaxAge: 300000, allowAutoTopicCreation: false,
  })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const sha = crypto.createHash('sha256')
  const i32 = n => { const b = Buffer.alloc(4); b.writeInt32BE(n); return b }
  const add = b => { if (b === null || b === undefined) { sha.update(i32(-1)) } else { sha.update(i32(b.length)); sha.update(b) } }
  const deadline = Date.now() + 300_000
  for (let next = 0; next < count;) {
    if (Date.now() > deadline) throw new Error(`only ${next} of ${count} records in five minutes`)
    const leaders = cluster.findLeaderForPartitions(topic, [0])
    const broker = await cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
    const { responses } = await broker.fetch({
      maxWaitTime: 500, minBytes: 1, maxBytes: 32 << 20, isolationLevel: 1,
      topics: [{ topic, partitions: [{ partition: 0, fetchOffset: next.toString(), maxBytes: 16 << 20 }] }],
    })
    for (const m of responses[0].partitions[0].messages) {
      if (Number(m.offset) < next) continue // the batch began before what was asked
      if (Number(m.offset) !== next) throw new Error(`offset ${m.offset} where ${next} belongs`)
      if (next >= count) throw new Error(`more than ${count} records`)
      next++
      const ts = Buffer.alloc(8)
      ts.writeBigInt64BE(BigInt(m.timestamp))
      sha.update(ts)
      add(m.key)
      add(m.value)
      const headers = []
      for (const [name, value] of Object.entries(m.headers || {})) for (const v of Array.isArray(value) ? value : [value]) headers.push([name, v])
      sha.update(i32(headers.length))
      for (const [name, value] of headers) { add(Buffer.from(name)); add(value) }
    }
  }
  await cluster.disconnect()
  console.log(count, sha.digest('hex'))
}

const [, , what, addr, topic, input, codec] = process.argv
const kafka = new Kafka({ clientId: 'e2e', brokers: [addr], logLevel: logLevel.ERROR, retry: { retries: 30, maxRetryTime: 2000 } })
const run = what === 'produce' ? produce(kafka, topic, input, codec) : consume(kafka, topic, Number(input))
run.then(() => process.exit(0), err => { console.error(err); process.exit(1) })
