/* loadgen: replays prebuilt Kafka requests from one thread and says how fast they were answered.
 *
 *     loadgen --port P --frames FILE --kind produce|fetch [options]
 *
 *     --connections N      sockets opened (1)
 *     --window N           requests in flight on each of them (1)
 *     --seconds S          how long new requests are begun (5)
 *     --requests N         or how many are begun, if that comes first
 *     --rate R             so many are due in a second, whatever the server does; without it each answer begins the next
 *     --partitions N       partitions in each answer (1)
 *     --offset-at POS      fetch: where in a frame the fetch offset stands
 *     --offset-step N      fetch: how far it moves from one request on a partition to the next (0)
 *     --offset-end N       fetch: where it starts again at zero
 *     --min-bytes N        fetch: an answer with fewer record bytes is a failure (1)
 *     --answers FILE       writes down each answer: when its request was begun or due (CLOCK_MONOTONIC) and how long it took,
 *                          two numbers of 64 bits, in nanoseconds
 *
 * FILE holds one or more whole requests, each with its length in front; they are sent in turn. Produce must be version
 * 9 to 12 and Fetch version 12, the flexible versions that still name topics. Each answer is checked: correlation id,
 * error codes, number of partitions, and for a fetch that its first batch holds the offset asked for. A server that
 * answers anything else does not get a figure: the program says what was wrong and exits with 1.
 *
 * With a rate a request goes to the next connection that has room for it, and its latency counts from when it was due: what
 * waits because the server is slow is slow.
 *
 * When the time is over no request is begun, but all answers are awaited: "requests" is exactly what the server
 * acknowledged, and "seconds" ends with the last answer. The report is one line of JSON. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_MAX = 1024, RECEIVE_BYTES = 256 * 1024, PRODUCE_HEAD = 256 * 1024, FETCH_HEAD = 1024 };
enum { CORRELATION_AT = 8, SILENCE_S = 30 };

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) die("out of memory");
    return memory;
}

/* ---- latencies: 64 buckets for each power of two of nanoseconds, so a percentile is right within 1.6 % ---- */

static uint64_t histogram[64 * 64], latencies, latency_max;
static FILE *written_down;

static void note_latency(uint64_t begun_ns, uint64_t ns) {
    const uint64_t answer[2] = {begun_ns, ns};
    if (written_down && fwrite(answer, sizeof answer, 1, written_down) != 1) die("--answers: %s", strerror(errno));
    size_t bucket = ns;
    if (ns >= 64) {
        int top = 63 - __builtin_clzll(ns);
        bucket = (size_t)(top - 5) * 64 + ((ns >> (top - 6)) & 63);
    }
    histogram[bucket]++;
    latencies++;
    if (ns > latency_max) latency_max = ns;
}

static double percentile_us(double share) {
    uint64_t rank = (uint64_t)((double)latencies * share), seen = 0;
    for (size_t bucket = 0; bucket < 64 * 64; bucket++) {
        seen += histogram[bucket];
        if (seen <= rank) continue;
        if (bucket < 64) return (double)bucket / 1e3;
        int top = (int)(bucket / 64) + 5;
        double low = (double)(64 + bucket % 64) * (double)(1ull << (top - 6));
        return (low + (double)(1ull << (top - 6)) / 2) / 1e3;
    }
    return (double)latency_max / 1e3;
}

/* ---- the requests ---- */

typedef struct {
    size_t at, length; /* within the file */
} Frame;

static char *file_bytes;
static size_t file_length, frame_count;
static Frame *frames;

static void read_frames(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die("%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    file_length = (size_t)ftell(file);
    rewind(file);
    file_bytes = allocate(1, file_length + 1);
    if (fread(file_bytes, 1, file_length, file) != file_length) die("%s: short read", path);
    fclose(file);
    frames = allocate(file_length / 14 + 1, sizeof *frames);
    for (size_t at = 0; at < file_length;) {
        uint32_t size;
        if (file_length - at < 14) die("%s: a frame is cut short", path);
        memcpy(&size, file_bytes + at, 4);
        size = ntohl(size);
        if (size < 10 || size > file_length - at - 4) die("%s: a frame's length is wrong", path);
        frames[frame_count++] = (Frame){at, size + 4};
        at += size + 4;
    }
    if (!frame_count) die("%s: no frame in it", path);
}

/* ---- the answers ---- */

typedef struct {
    const unsigned char *at, *end;
    int cut; /* the answer ended too early */
} Cursor;

static const unsigned char *take(Cursor *c, size_t count) {
    static const unsigned char zeros[16];
    if ((size_t)(c->end - c->at) < count) {
        c->cut = 1;
        return zeros;
    }
    const unsigned char *found = c->at;
    c->at += count;
    return found;
}

static void skip(Cursor *c, uint64_t count) {
    if ((uint64_t)(c->end - c->at) < count) {
        c->cut = 1;
        return;
    }
    c->at += count;
}

static int16_t int16_of(Cursor *c) {
    const unsigned char *p = take(c, 2);
    return (int16_t)(p[0] << 8 | p[1]);
}

static int32_t int32_of(Cursor *c) {
    uint32_t value;
    memcpy(&value, take(c, 4), 4);
    return (int32_t)ntohl(value);
}

static int64_t int64_of(Cursor *c) {
    uint64_t value;
    memcpy(&value, take(c, 8), 8);
    return (int64_t)be64toh(value);
}

static uint64_t varint_of(Cursor *c) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        unsigned char byte = *take(c, 1);
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128 || c->cut) return value;
    }
    c->cut = 1;
    return 0;
}

static void skip_string(Cursor *c) {
    uint64_t length = varint_of(c); /* 0 is null, n stands for n - 1 bytes */
    if (length > 1) skip(c, length - 1);
}

static void skip_tags(Cursor *c) {
    for (uint64_t left = varint_of(c); left && !c->cut; left--) {
        varint_of(c);
        skip(c, varint_of(c));
    }
}

static uint64_t record_bytes;
static long wanted_partitions = 1, min_bytes = 1;

static void check_produce(Cursor *c) {
    long partitions = 0;
    for (uint64_t topics = varint_of(c); topics > 1 && !c->cut; topics--) {
        skip_string(c);
        for (uint64_t left = varint_of(c); left > 1 && !c->cut; left--) {
            int32_t index = int32_of(c);
            int16_t error = int16_of(c);
            if (error) die("Produce to partition %d was answered with error code %d", index, error);
            if (int64_of(c) < 0 && !c->cut) die("Produce to partition %d was acknowledged without an offset", index);
            skip(c, 16); /* append time, start offset */
            for (uint64_t errors = varint_of(c); errors > 1 && !c->cut; errors--) {
                int32_of(c);
                skip_string(c);
                skip_tags(c);
            }
            skip_string(c);
            skip_tags(c);
            partitions++;
        }
        skip_tags(c);
    }
    int32_of(c); /* throttle time */
    skip_tags(c);
    if (c->cut) die("a Produce answer ended too early");
    if (partitions != wanted_partitions) die("a Produce answer names %ld of %ld partitions", partitions, wanted_partitions);
}

static void check_fetch(Cursor *c, int64_t wanted_offset) {
    int32_of(c); /* throttle time */
    int16_t error = int16_of(c);
    if (error) die("Fetch was answered with error code %d", error);
    int32_of(c); /* session */
    if (varint_of(c) != 2) die("a Fetch answer does not name exactly one topic");
    skip_string(c);
    if (varint_of(c) != 2) die("a Fetch answer does not name exactly one partition");
    int32_t index = int32_of(c);
    error = int16_of(c);
    if (error) die("Fetch of partition %d was answered with error code %d", index, error);
    skip(c, 24); /* high watermark, last stable offset, start offset */
    for (uint64_t aborted = varint_of(c); aborted > 1 && !c->cut; aborted--) {
        skip(c, 16);
        skip_tags(c);
    }
    int32_of(c); /* preferred replica */
    uint64_t length = varint_of(c);
    length = length ? length - 1 : 0;
    if (c->cut) die("a Fetch answer ended too early");
    if ((int64_t)length < min_bytes)
        die("Fetch of partition %d at offset %ld brought %lu record bytes, not %ld", index, wanted_offset, length, min_bytes);
    int64_t base = int64_of(c);
    skip(c, 15); /* length, leader epoch, magic, CRC, attributes */
    int64_t last = base + int32_of(c);
    if (c->cut) die("a Fetch answer ended inside its first batch header");
    if (wanted_offset < base || wanted_offset > last)
        die("Fetch of partition %d at offset %ld brought offsets %ld to %ld", index, wanted_offset, base, last);
    record_bytes += length;
}

/* ---- connections ---- */

typedef struct {
    uint64_t begun_ns;
    int64_t offset;
    uint32_t correlation;
} Pending;

typedef struct {
    int socket, waits_to_send;
    char *requests;                /* this connection's own copy of the file, patched in place */
    const Frame *sending;          /* NULL between requests */
    size_t sent;                   /* of `sending` */
    Pending *pending;              /* a ring of `window` */
    uint64_t begun, answered;      /* requests on this connection */
    unsigned char length_bytes[4]; /* of the answer being read */
    size_t length_have;
    size_t remaining;    /* of the answer being read */
    unsigned char *head; /* its first bytes, kept for the check */
    size_t head_have;
} Connection;

static int is_fetch;
static long window = 1, offset_at = -1, offset_step, offset_end = 1;
static uint64_t begun_total, answered_total, sent_bytes, received_bytes, request_limit = UINT64_MAX;
static size_t head_limit;
static int poller;

static void begin_request(Connection *c, uint64_t due_ns) {
    uint64_t turn = begun_total++;
    c->sending = &frames[turn % frame_count];
    c->sent = 0;
    char *bytes = c->requests + c->sending->at;
    Pending *pending = &c->pending[c->begun++ % (uint64_t)window];
    *pending = (Pending){due_ns, 0, (uint32_t)(turn & 0x7fffffff)};
    uint32_t correlation = htonl(pending->correlation);
    memcpy(bytes + CORRELATION_AT, &correlation, 4);
    if (offset_at >= 0) {
        pending->offset = (int64_t)((turn / frame_count) * (uint64_t)offset_step % (uint64_t)offset_end);
        uint64_t wire = htobe64((uint64_t)pending->offset);
        memcpy(bytes + offset_at, &wire, 8);
    }
}

static void send_requests(Connection *c, int may_begin) {
    int blocked = 0;
    while (!blocked) {
        if (!c->sending) {
            if (!may_begin || begun_total >= request_limit || c->begun - c->answered >= (uint64_t)window) break;
            begin_request(c, now_ns());
        }
        ssize_t n = send(c->socket, c->requests + c->sending->at + c->sent, c->sending->length - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) die("send: %s", strerror(errno));
            blocked = 1;
        } else {
            sent_bytes += (uint64_t)n;
            c->sent += (size_t)n;
            if (c->sent == c->sending->length) c->sending = NULL;
        }
    }
    if (blocked != c->waits_to_send) {
        struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_MOD, c->socket, &event);
        c->waits_to_send = blocked;
    }
}

static uint64_t due_ns, interval_ns; /* with a rate */

static void begin_due(Connection *all, long connections, uint64_t now) {
    static uint64_t turn;
    while (due_ns <= now && begun_total < request_limit) {
        Connection *c = NULL;
        for (long tried = 0; tried < connections && !c; tried++) {
            Connection *next = &all[turn++ % (uint64_t)connections];
            if (!next->sending && next->begun - next->answered < (uint64_t)window) c = next;
        }
        if (!c) return;
        begin_request(c, due_ns);
        send_requests(c, 0);
        due_ns += interval_ns;
    }
}

static int open_timer(void) {
    struct itimerspec every = {{0, (long)(interval_ns % 1000000000u)}, {0, 1}};
    every.it_interval.tv_sec = (time_t)(interval_ns / 1000000000u);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL)) die("timer: %s", strerror(errno));
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
    return timer;
}

static void take_answer(Connection *c) {
    uint64_t now = now_ns();
    if (c->answered == c->begun) die("an answer nobody asked for");
    Pending *pending = &c->pending[c->answered++ % (uint64_t)window];
    Cursor cursor = {c->head, c->head + c->head_have, 0};
    uint32_t correlation = (uint32_t)int32_of(&cursor);
    if (correlation != pending->correlation) die("answer %u came where %u was due", correlation, pending->correlation);
    skip_tags(&cursor);
    if (is_fetch)
        check_fetch(&cursor, pending->offset);
    else
        check_produce(&cursor);
    answered_total++;
    note_latency(pending->begun_ns, now - pending->begun_ns);
}

static void take_bytes(Connection *c, const unsigned char *bytes, size_t count) {
    while (count) {
        if (!c->remaining) {
            size_t n = 4 - c->length_have < count ? 4 - c->length_have : count;
            memcpy(c->length_bytes + c->length_have, bytes, n);
            c->length_have += n, bytes += n, count -= n;
            if (c->length_have < 4) return;
            uint32_t length;
            memcpy(&length, c->length_bytes, 4);
            c->remaining = ntohl(length);
            c->length_have = c->head_have = 0;
            if (c->remaining < 4 || c->remaining > 1u << 30) die("an answer claims %zu bytes", c->remaining);
            continue;
        }
        size_t n = c->remaining < count ? c->remaining : count;
        size_t keep = head_limit - c->head_have < n ? head_limit - c->head_have : n;
        memcpy(c->head + c->head_have, bytes, keep);
        c->head_have += keep;
        c->remaining -= n, bytes += n, count -= n;
        if (!c->remaining) take_answer(c);
    }
}

static void receive_answers(Connection *c) {
    static unsigned char buffer[RECEIVE_BYTES];
    for (;;) {
        ssize_t n = recv(c->socket, buffer, sizeof buffer, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) die("recv: %s", strerror(errno));
        if (n == 0) die("the server closed the connection");
        received_bytes += (uint64_t)n;
        take_bytes(c, buffer, (size_t)n);
        if (n < (ssize_t)sizeof buffer) return;
    }
}

static void open_connection(Connection *c, const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) die("%s is not an IPv4 address", host);
    int one = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->socket, (struct sockaddr *)&address, sizeof address)) die("connect: %s", strerror(errno));
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->socket, F_SETFL, O_NONBLOCK);
    c->requests = allocate(1, file_length);
    memcpy(c->requests, file_bytes, file_length);
    c->pending = allocate((size_t)window, sizeof *c->pending);
    c->head = allocate(1, head_limit);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event);
}

int main(int count, char **arguments) {
    const char *host = "127.0.0.1", *path = NULL, *kind = NULL;
    long port = 0, connections = 1;
    double seconds = 5, rate = 0;
    enum { HOST, PORT, FRAMES, KIND, CONNECTIONS, WINDOW, SECONDS, REQUESTS, PARTITIONS, OFFSET_AT, STEP, END, MIN_BYTES, RATE, ANSWERS };
    static const struct option options[] = {
        {"host", 1, 0, HOST},           {"port", 1, 0, PORT},         {"frames", 1, 0, FRAMES},
        {"kind", 1, 0, KIND},           {"window", 1, 0, WINDOW},     {"connections", 1, 0, CONNECTIONS},
        {"seconds", 1, 0, SECONDS},     {"requests", 1, 0, REQUESTS}, {"partitions", 1, 0, PARTITIONS},
        {"offset-at", 1, 0, OFFSET_AT}, {"offset-step", 1, 0, STEP},  {"offset-end", 1, 0, END},
        {"min-bytes", 1, 0, MIN_BYTES}, {"rate", 1, 0, RATE},         {"answers", 1, 0, ANSWERS},
        {0, 0, 0, 0},
    };
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case HOST: host = optarg; break;
        case PORT: port = atol(optarg); break;
        case FRAMES: path = optarg; break;
        case KIND: kind = optarg; break;
        case CONNECTIONS: connections = atol(optarg); break;
        case WINDOW: window = atol(optarg); break;
        case SECONDS: seconds = atof(optarg); break;
        case REQUESTS: request_limit = strtoull(optarg, NULL, 10); break;
        case PARTITIONS: wanted_partitions = atol(optarg); break;
        case OFFSET_AT: offset_at = atol(optarg); break;
        case STEP: offset_step = atol(optarg); break;
        case END: offset_end = atol(optarg); break;
        case MIN_BYTES: min_bytes = atol(optarg); break;
        case RATE: rate = atof(optarg); break;
        case ANSWERS:
            if (!(written_down = fopen(optarg, "wb"))) die("--answers: %s", strerror(errno));
            break;
        default: return 2;
        }
    }
    if (!path || !kind || port <= 0) die("--port, --frames and --kind are needed");
    if (strcmp(kind, "produce") && strcmp(kind, "fetch")) die("--kind is produce or fetch");
    if (connections < 1 || window < 1 || window > WINDOW_MAX || offset_end < 1) die("a number is out of range");
    if (rate < 0 || rate > 1e6) die("--rate is a number of requests in a second");
    is_fetch = !strcmp(kind, "fetch");
    head_limit = is_fetch ? FETCH_HEAD : PRODUCE_HEAD;
    read_frames(path);
    for (size_t i = 0; i < frame_count; i++)
        if (offset_at >= 0 && (size_t)offset_at + 8 > frames[i].length) die("--offset-at is outside a frame");

    poller = epoll_create1(0);
    Connection *all = allocate((size_t)connections, sizeof *all);
    for (long i = 0; i < connections; i++) open_connection(&all[i], host, (int)port);

    uint64_t start_ns = now_ns(), last_answer_ns = start_ns;
    const uint64_t end_ns = start_ns + (uint64_t)(seconds * 1e9);
    int timer = -1;
    if (rate > 0) {
        interval_ns = (uint64_t)(1e9 / rate);
        due_ns = start_ns;
        timer = open_timer();
    }
    for (long i = 0; i < connections && !rate; i++) send_requests(&all[i], 1);
    while (now_ns() < end_ns || answered_total < begun_total) {
        if (begun_total >= request_limit && answered_total == begun_total) break;
        struct epoll_event events[64];
        uint64_t before = answered_total;
        int ready = epoll_wait(poller, events, 64, 50);
        int may_begin = now_ns() < end_ns;
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            uint64_t expired;
            if (!c) { /* the timer: what is due is begun below */
                if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN) die("timer: %s", strerror(errno));
                continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive_answers(c);
            send_requests(c, may_begin && !rate);
        }
        uint64_t now = now_ns();
        if (rate && may_begin) begin_due(all, connections, now);
        if (answered_total > before) last_answer_ns = now;
        if (now - last_answer_ns > SILENCE_S * 1000000000ull) die("no answer for %d s", SILENCE_S);
    }
    if (written_down && fclose(written_down)) die("--answers: %s", strerror(errno));
    double took = (double)(last_answer_ns - start_ns) / 1e9;
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"sent_bytes\": %lu, \"received_bytes\": %lu, "
           "\"record_bytes\": %lu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, "
           "\"client_cpu_s\": %.3f}\n",
           answered_total, took, sent_bytes, received_bytes, record_bytes, percentile_us(0.5), percentile_us(0.99),
           percentile_us(0.999), (double)latency_max / 1e3, (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    return 0;
}
