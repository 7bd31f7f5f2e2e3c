/* HTTP/1.1 load: a number of connections, each sends its next request as soon as the one before it is answered.
 *
 *   httpload HOST PORT CONNECTIONS SECONDS PID FILE...
 *
 * A FILE holds a request byte for byte; where there are several, they are sent in turn. Prints one line of JSON: answers,
 * their rate, latencies, the bytes of their bodies, the server's CPU time for each (from /proc/PID), and how many were not
 * 2xx. It ends with the first answer after SECONDS, so that slow answers count for what they are. Answers must have a
 * Content-Length; their bodies may have any size. Where an answer ends its connection, the next request goes over a new
 * one. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_BYTES = 65536, MOST_LATENCIES = 4 * 1000 * 1000 };

typedef struct {
    char *bytes;
    size_t size;
} Request;

typedef struct {
    int fd;
    const Request *request;
    size_t sent, have; /* of the answer */
    size_t size; /* of the whole answer, 0 while its head is not there */
    int last;    /* the answer says that it ends the connection */
    uint64_t begun_ns;
    char answer[ANSWER_BYTES];
} Connection;

static Request *requests;
static size_t request_count, next_request;
static uint32_t *latencies_us;
static size_t answers, refused;
static uint64_t body_bytes, last_answer_ns;
static struct sockaddr_in address;

static void die(const char *what) {
    fprintf(stderr, "httpload: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_s(int pid) {
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    char *rest = strrchr(text, ')');
    if (rest) sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void send_some(Connection *c, int poll_fd) {
    size_t request_size = c->request->size;
    while (c->sent < request_size) {
        ssize_t n = send(c->fd, c->request->bytes + c->sent, request_size - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) die("send");
        c->sent += (size_t)n;
    }
    struct epoll_event event = {.events = EPOLLIN | (c->sent < request_size ? EPOLLOUT : 0), .data.ptr = c};
    static int registered_out;
    if (c->sent < request_size || registered_out) {
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &event);
        registered_out = 1;
    }
}

static void open_connection(Connection *c, int poll_fd) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void begin(Connection *c, int poll_fd) {
    c->request = &requests[next_request++ % request_count];
    c->have = c->sent = c->size = 0;
    c->begun_ns = now_ns();
    send_some(c, poll_fd);
}

static size_t answer_size(Connection *c) {
    c->answer[c->have] = 0;
    char *end = strstr(c->answer, "\r\n\r\n");
    if (!end) return 0;
    char *length = strcasestr(c->answer, "\r\ncontent-length:");
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    char *closes = strcasestr(c->answer, "\r\nconnection: close");
    c->last = closes && closes < end;
    body_bytes += body;
    return (size_t)(end - c->answer) + 4 + body;
}

static void take(Connection *c, int poll_fd) {
    static char ignored[1 << 20]; /* what follows the head is only counted */
    ssize_t n = c->size ? recv(c->fd, ignored, sizeof ignored, 0)
                        : recv(c->fd, c->answer + c->have, ANSWER_BYTES - 1 - c->have, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) die("the server closed a connection");
    c->have += (size_t)n;
    if (!c->size) c->size = answer_size(c);
    if (!c->size || c->have < c->size) return;
    uint64_t now = last_answer_ns = now_ns();
    if (c->answer[9] != '2') {
        if (!refused++) fprintf(stderr, "httpload: %.2000s\n", c->answer);
    }
    if (answers < MOST_LATENCIES) latencies_us[answers] = (uint32_t)((now - c->begun_ns) / 1000);
    answers++;
    if (c->last) {
        close(c->fd);
        open_connection(c, poll_fd);
    }
    begin(c, poll_fd);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void load_request(Request *request, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    fseek(file, 0, SEEK_END);
    request->size = (size_t)ftell(file);
    rewind(file);
    request->bytes = malloc(request->size);
    if (fread(request->bytes, 1, request->size, file) != request->size) die(path);
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "httpload HOST PORT CONNECTIONS SECONDS PID FILE...\n");
        return 2;
    }
    int count = atoi(argv[3]), pid = atoi(argv[5]);
    double seconds = atof(argv[4]);
    request_count = (size_t)argc - 6;
    requests = malloc(sizeof *requests * request_count);
    for (size_t i = 0; i < request_count; i++) load_request(&requests[i], argv[6 + i]);
    latencies_us = malloc(sizeof *latencies_us * MOST_LATENCIES);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    inet_pton(AF_INET, argv[1], &address.sin_addr);
    int poll_fd = epoll_create1(0);
    Connection *all = calloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) open_connection(&all[i], poll_fd);
    double cpu = cpu_s(pid);
    uint64_t begun = now_ns(), until = begun + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < count; i++) {
        begin(&all[i], poll_fd);
    }
    while (last_answer_ns < until) {
        struct epoll_event events[256];
        int n = epoll_wait(poll_fd, events, 256, 100);
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) send_some(c, poll_fd);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take(c, poll_fd);
        }
    }
    double took = (double)(now_ns() - begun) / 1e9;
    cpu = cpu_s(pid) - cpu;
    size_t kept = answers < MOST_LATENCIES ? answers : MOST_LATENCIES;
    qsort(latencies_us, kept, sizeof *latencies_us, by_size);
    printf("{\"answers\": %zu, \"refused\": %zu, \"rate\": %.1f, \"p50_us\": %u, \"p99_us\": %u, \"server_cpu_us\": %.1f, "
           "\"body_bytes\": %llu}\n",
           answers, refused, (double)answers / took, kept ? latencies_us[kept / 2] : 0,
           kept ? latencies_us[kept * 99 / 100] : 0, answers ? cpu * 1e6 / (double)answers : 0,
           (unsigned long long)body_bytes);
    return 0;
}
