import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's own client in the end-to-end run; e2e/doc.go says what its arguments mean. */
public class E2E {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("produce")) {
            produce(args[1], args[2], args[3], args[4]);
        } else {
            consume(args[1], args[2], Long.parseLong(args[3]));
        }
    }

    static byte[] take(DataInputStream in) throws Exception {
        int n = in.readInt();
        return n < 0 ? null : in.readNBytes(n);
    }

    static void produce(String addr, String topic, String path, String codec) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", addr);
        config.put("max.request.size", 16 << 20);
        if (!codec.equals("default")) {
            config.put("compression.type", codec);
        }
        AtomicLong acked = new AtomicLong();
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
             DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(path), 1 << 20))) {
            while (true) {
                long timestamp;
                try {
                    timestamp = in.readLong();
                } catch (EOFException end) {
                    break;
                }
                byte[] key = take(in);
                byte[] value = take(in);
                List<Header> headers = new ArrayList<>();
                for (int n = in.readInt(); n > 0; n--) {
                    String name = new String(take(in), StandardCharsets.UTF_8);
                    headers.add(new RecordHeader(name, take(in)));
                }
                producer.send(new ProducerRecord<>(topic, 0, timestamp, key, value, headers), (meta, err) -> {
                    if (err == null) {
                        acked.incrementAndGet();
                    } else {
                        failed.compareAndSet(null, err);
                    }
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.println(acked.get());
    }

    static void put(DataOutputStream out, byte[] b) throws Exception {
        out.writeInt(b == null ? -1 : b.length);
        if (b != null) {
            out.write(b);
        }
    }

    static void consume(String addr, String topic, long count) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", addr);
        config.put("auto.offset.reset", "none");
        config.put("max.partition.fetch.bytes", 16 << 20);
        config.put("max.poll.records", 10000);
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        long next = 0;
        long deadline = System.nanoTime() + 300_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (next < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + next + " of " + count + " records in five minutes");
                }
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    if (r.offset() != next || next >= count) {
                        throw new IllegalStateException("offset " + r.offset() + " where " + next + " of " + count + " belongs");
                    }
                    next++;
                    bytes.reset();
                    DataOutputStream out = new DataOutputStream(bytes);
                    out.writeLong(r.timestamp());
                    put(out, r.key());
                    put(out, r.value());
                    Header[] headers = r.headers().toArray();
                    out.writeInt(headers.length);
                    for (Header h : headers) {
                        put(out, h.key().getBytes(StandardCharsets.UTF_8));
                        put(out, h.value());
                    }
                    sha.update(bytes.toByteArray());
                }
            }
        }
        System.out.println(count + " " + HexFormat.of().formatHex(sha.digest()));
    }
}
