// A member of a group by kafkajs: ADDR TOPIC GROUP PROTOCOL. Prints each value.
const { Kafka, logLevel } = require('kafkajs')
const [addr, topic, groupId] = process.argv.slice(2)

async function main() {
  const consumer = new Kafka({ brokers: [addr], logLevel: logLevel.NOTHING }).consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 1000 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommitInterval: 200, eachMessage: async ({ message }) => { require('fs').writeSync(1, message.value + '\n') } })
}

main().catch(err => { console.error(err.message); process.exit(1) })
