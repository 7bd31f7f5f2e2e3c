/* rdload: drives a Kafka server with librdkafka, the client library under most non-Java clients.
 *
 *     rdload produce   BOOTSTRAP TOPIC COUNT SIZE [setting=value ...]
 *     rdload consume   BOOTSTRAP TOPIC COUNT SIZE [setting=value ...]
 *     rdload roundtrip BOOTSTRAP TOPIC COUNT SIZE [setting=value ...]
 *
 * produce: COUNT records of SIZE bytes to partition 0, after a tenth as many to warm up; the time runs until the last
 * of them is acknowledged. consume: partition 0 from its start; the time runs from the first record handed over to the
 * COUNT-th, and each record must have the next offset, the right size and its own number in it. roundtrip: one record at
 * a time, from the call that sends it until a consumer in the same process holds it.
 *
 * It is linked with the library that the confluent-kafka wheel carries, which comes without its header; what is used of
 * the library's stable interface is therefore declared here. The report is one line of JSON. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;
enum { RD_KAFKA_PRODUCER, RD_KAFKA_CONSUMER };
enum { RD_KAFKA_MSG_F_COPY = 2, RD_KAFKA_RESP_ERR__QUEUE_FULL = -184, RD_KAFKA_RESP_ERR__PARTITION_EOF = -191 };
enum { RD_KAFKA_OFFSET_BEGINNING = -2, RD_KAFKA_OFFSET_END = -1 };

extern const char *rd_kafka_version_str(void);
extern const char *rd_kafka_err2str(int);
extern int rd_kafka_last_error(void);
extern rd_kafka_conf_t *rd_kafka_conf_new(void);
extern int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
extern void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
extern rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
extern rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
extern int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
extern int rd_kafka_poll(rd_kafka_t *, int);
extern int rd_kafka_flush(rd_kafka_t *, int);
extern rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
extern void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
extern int rd_kafka_topic_partition_list_set_offset(rd_kafka_topic_partition_list_t *, const char *, int32_t, int64_t);
extern int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
extern int rd_kafka_poll_set_consumer(rd_kafka_t *);
extern rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
extern ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
extern rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *, int);
extern void rd_kafka_message_destroy(rd_kafka_message_t *);

enum { BATCH = 2000, SILENCE_MS = 30000 };

static char reason[512];
static long delivered;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("rdload: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) die("a record was not delivered: %s", rd_kafka_err2str(message->err));
    delivered++;
}

/* ---- clients ---- */

static const char *bootstrap, *topic;
static long count;
static size_t size;
static char **settings;

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason)) die("%s", reason);
}

static rd_kafka_conf_t *configured(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "socket.nagle.disable", "true");
    for (char **each = settings; *each; each++) {
        char *name = strdup(*each), *equals = strchr(name, '=');
        if (!equals) die("%s is not setting=value", name);
        *equals = 0;
        set(conf, name, equals + 1);
        free(name);
    }
    return conf;
}

static rd_kafka_t *new_producer(const char *linger_ms) {
    rd_kafka_conf_t *conf = configured();
    if (linger_ms) set(conf, "linger.ms", linger_ms);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!producer) die("%s", reason);
    return producer;
}

static rd_kafka_t *new_consumer(int64_t from) {
    rd_kafka_conf_t *conf = configured();
    set(conf, "group.id", "rdload");
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
    if (!consumer) die("%s", reason);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *assignment = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(assignment, topic, 0);
    rd_kafka_topic_partition_list_set_offset(assignment, topic, 0, from);
    if (rd_kafka_assign(consumer, assignment)) die("assign failed");
    return consumer;
}

static char *new_payload(void) {
    char *payload = malloc(size > 8 ? size : 8);
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        payload[i] = (char)state;
    }
    return payload;
}

static void send_record(rd_kafka_t *producer, rd_kafka_topic_t *to, char *payload, uint64_t number) {
    if (size >= 8) memcpy(payload, &number, 8);
    while (rd_kafka_produce(to, 0, RD_KAFKA_MSG_F_COPY, payload, size, NULL, 0, NULL)) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("%s", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(producer, 10);
    }
}

/* ---- what is measured ---- */

static double produce_records(rd_kafka_t *producer, rd_kafka_topic_t *to, char *payload, uint64_t first, long records) {
    double start = now_s();
    delivered = 0;
    for (long i = 0; i < records; i++) {
        send_record(producer, to, payload, first + (uint64_t)i);
        if (i % 1000 == 0) rd_kafka_poll(producer, 0);
    }
    if (rd_kafka_flush(producer, 120000) || delivered != records) die("%ld of %ld records acknowledged", delivered, records);
    return now_s() - start;
}

static void report_rate(long records, double took) {
    printf("{\"records\": %ld, \"bytes\": %.0f, \"seconds\": %.6f, \"librdkafka\": \"%s\"}\n", records,
           (double)records * (double)size, took, rd_kafka_version_str());
}

static void produce(void) {
    rd_kafka_t *producer = new_producer(NULL);
    rd_kafka_topic_t *to = rd_kafka_topic_new(producer, topic, NULL);
    char *payload = new_payload();
    produce_records(producer, to, payload, 0, count / 10);
    report_rate(count, produce_records(producer, to, payload, (uint64_t)(count / 10), count));
}

static void consume(void) {
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(new_consumer(RD_KAFKA_OFFSET_BEGINNING));
    static rd_kafka_message_t *messages[BATCH];
    long taken = 0, untimed = 0;
    double start = 0;
    while (taken < count) {
        ssize_t n = rd_kafka_consume_batch_queue(queue, SILENCE_MS, messages, BATCH);
        if (n <= 0) die("nothing came for %d s after %ld records", SILENCE_MS / 1000, taken);
        for (ssize_t i = 0; i < n; i++) {
            rd_kafka_message_t *m = messages[i];
            if (m->err) die("%s after %ld records", rd_kafka_err2str(m->err), taken);
            uint64_t number = (uint64_t)taken;
            if (size >= 8) memcpy(&number, m->payload, 8);
            if (m->offset != taken || m->len != size || number != (uint64_t)taken)
                die("record %ld came with offset %ld, %zu bytes, number %lu", taken, m->offset, m->len, number);
            taken++;
            rd_kafka_message_destroy(m);
        }
        if (!start) start = now_s(), untimed = taken;
    }
    report_rate(taken - untimed, now_s() - start);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void roundtrip(void) {
    rd_kafka_t *producer = new_producer("0"), *consumer = new_consumer(RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_topic_t *to = rd_kafka_topic_new(producer, topic, NULL);
    char *payload = new_payload();
    long warm = count / 5;
    double *took = calloc((size_t)count, sizeof *took);
    for (long i = -warm; i < count; i++) {
        double start = now_s();
        send_record(producer, to, payload, (uint64_t)(i + warm));
        rd_kafka_message_t *m;
        do {
            m = rd_kafka_consumer_poll(consumer, SILENCE_MS);
        } while (m && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF);
        if (!m) die("record %ld did not come back", i + warm);
        if (m->err) die("%s", rd_kafka_err2str(m->err));
        if (m->offset != i + warm) die("record %ld came back at offset %ld", i + warm, m->offset);
        if (i >= 0) took[i] = now_s() - start;
        rd_kafka_message_destroy(m);
        rd_kafka_poll(producer, 0);
    }
    if (rd_kafka_flush(producer, 30000) || delivered != count + warm) die("%ld of %ld acknowledged", delivered, count + warm);
    qsort(took, (size_t)count, sizeof *took, by_value);
    printf("{\"records\": %ld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f, \"librdkafka\": \"%s\"}\n", count,
           took[count / 2] * 1e3, took[count * 99 / 100] * 1e3, took[count - 1] * 1e3, rd_kafka_version_str());
}

int main(int argc, char **argv) {
    if (argc < 6) die("rdload produce|consume|roundtrip BOOTSTRAP TOPIC COUNT SIZE [setting=value ...]");
    bootstrap = argv[2], topic = argv[3], count = atol(argv[4]), size = (size_t)atol(argv[5]), settings = argv + 6;
    if (count < 10) die("COUNT must be at least 10");
    if (!strcmp(argv[1], "produce"))
        produce();
    else if (!strcmp(argv[1], "consume"))
        consume();
    else if (!strcmp(argv[1], "roundtrip"))
        roundtrip();
    else
        die("%s is neither produce, consume nor roundtrip", argv[1]);
    fflush(stdout);
    _exit(0); /* tearing librdkafka down takes longer than it is worth here */
}
