/* What `_kinesis.pyx` needs in C: MD5, base64, hash keys of 128 bits and sequence numbers in decimal.
   Included after native.h. Base64 uses AVX2 where the processor has it; that is asked at run time. */
#ifndef HEADRACE_KINESIS_H
#define HEADRACE_KINESIS_H

#include "native.h"

/* --- MD5 (RFC 1321), of keys that are a block or a few long */

#define HR_ROL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define HR_F(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define HR_G(b, c, d) ((c) ^ ((d) & ((b) ^ (c))))
#define HR_H(b, c, d) ((b) ^ (c) ^ (d))
#define HR_I(b, c, d) ((c) ^ ((b) | ~(d)))
#define HR_STEP(f, a, b, c, d, x, t, s) a += f(b, c, d) + (x) + (uint32_t)(t); a = HR_ROL(a, s) + b;
#define HR_FOUR(f, i, j, k, l, s1, s2, s3, s4, t1, t2, t3, t4) \
    HR_STEP(f, a, b, c, d, m[i], t1, s1) HR_STEP(f, d, a, b, c, m[j], t2, s2) \
    HR_STEP(f, c, d, a, b, m[k], t3, s3) HR_STEP(f, b, c, d, a, m[l], t4, s4)

static void hr_md5_block(uint32_t *state, const uint8_t *p) {
    uint32_t m[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++)
        m[i] = (uint32_t)p[4 * i] | ((uint32_t)p[4 * i + 1] << 8) | ((uint32_t)p[4 * i + 2] << 16) | ((uint32_t)p[4 * i + 3] << 24);
    HR_FOUR(HR_F, 0, 1, 2, 3, 7, 12, 17, 22, 0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee)
    HR_FOUR(HR_F, 4, 5, 6, 7, 7, 12, 17, 22, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501)
    HR_FOUR(HR_F, 8, 9, 10, 11, 7, 12, 17, 22, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be)
    HR_FOUR(HR_F, 12, 13, 14, 15, 7, 12, 17, 22, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821)
    HR_FOUR(HR_G, 1, 6, 11, 0, 5, 9, 14, 20, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa)
    HR_FOUR(HR_G, 5, 10, 15, 4, 5, 9, 14, 20, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8)
    HR_FOUR(HR_G, 9, 14, 3, 8, 5, 9, 14, 20, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed)
    HR_FOUR(HR_G, 13, 2, 7, 12, 5, 9, 14, 20, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a)
    HR_FOUR(HR_H, 5, 8, 11, 14, 4, 11, 16, 23, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c)
    HR_FOUR(HR_H, 1, 4, 7, 10, 4, 11, 16, 23, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70)
    HR_FOUR(HR_H, 13, 0, 3, 6, 4, 11, 16, 23, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05)
    HR_FOUR(HR_H, 9, 12, 15, 2, 4, 11, 16, 23, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665)
    HR_FOUR(HR_I, 0, 7, 14, 5, 6, 10, 15, 21, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039)
    HR_FOUR(HR_I, 12, 3, 10, 1, 6, 10, 15, 21, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1)
    HR_FOUR(HR_I, 8, 15, 6, 13, 6, 10, 15, 21, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1)
    HR_FOUR(HR_I, 4, 11, 2, 9, 6, 10, 15, 21, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391)
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
}

static inline uint32_t hr_swap32(uint32_t v) {
    return (v >> 24) | ((v >> 8) & 0xFF00u) | ((v << 8) & 0xFF0000u) | (v << 24);
}

/* The digest as one big-endian number of 128 bits. */
static void hr_md5(const uint8_t *p, size_t n, uint64_t *high, uint64_t *low) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t last[128];
    size_t left = n, size;
    uint64_t bits = (uint64_t)n * 8;
    while (left >= 64) { hr_md5_block(state, p); p += 64; left -= 64; }
    size = left < 56 ? 64 : 128;
    memset(last, 0, size);
    if (left) memcpy(last, p, left);
    last[left] = 0x80;
    for (int i = 0; i < 8; i++) last[size - 8 + i] = (uint8_t)(bits >> (8 * i));
    for (size_t at = 0; at < size; at += 64) hr_md5_block(state, last + at);
    *high = ((uint64_t)hr_swap32(state[0]) << 32) | hr_swap32(state[1]);
    *low = ((uint64_t)hr_swap32(state[2]) << 32) | hr_swap32(state[3]);
}

/* --- base64 (RFC 4648), strict: padded, canonical, nothing else in it */

static const char hr_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static uint8_t hr_values[256]; /* 255: no letter */
static int hr_avx2 = 0;

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define HR_TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)

/* 24 bytes to 32 letters a step; reads 4 bytes beyond these 24, so it stops before the end. Returns how many bytes it did. */
__attribute__((target("avx2"))) static size_t hr_encode64_avx2(const uint8_t *p, size_t n, uint8_t *out) {
    const __m256i spread = HR_TWICE(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    const __m256i shifts = HR_TWICE(65, 71, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, -19, -16, 0, 0);
    size_t done = 0;
    while (n - done >= 28) {
        __m128i low = _mm_loadu_si128((const __m128i *)(p + done));
        __m128i high = _mm_loadu_si128((const __m128i *)(p + done + 12));
        __m256i in = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), spread);
        __m256i odd = _mm256_mulhi_epu16(_mm256_and_si256(in, _mm256_set1_epi32(0x0fc0fc00)), _mm256_set1_epi32(0x04000040));
        __m256i even = _mm256_mullo_epi16(_mm256_and_si256(in, _mm256_set1_epi32(0x003f03f0)), _mm256_set1_epi32(0x01000010));
        __m256i six = _mm256_or_si256(odd, even);
        __m256i range = _mm256_sub_epi8(_mm256_subs_epu8(six, _mm256_set1_epi8(51)), _mm256_cmpgt_epi8(six, _mm256_set1_epi8(25)));
        _mm256_storeu_si256((__m256i *)(out + done / 3 * 4), _mm256_add_epi8(six, _mm256_shuffle_epi8(shifts, range)));
        done += 24;
    }
    return done;
}

/* 32 letters to 24 bytes a step, of which it writes 32. Stops before the last letters, and at the first that is none. */
__attribute__((target("avx2"))) static size_t hr_decode64_avx2(const uint8_t *p, size_t n, uint8_t *out) {
    const __m256i low_bad = HR_TWICE(0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x13, 0x1A, 0x1B, 0x1B, 0x1B, 0x1A);
    const __m256i high_bad = HR_TWICE(0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10);
    const __m256i shifts = HR_TWICE(0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i gather = HR_TWICE(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
    const __m256i slash = _mm256_set1_epi8(0x2f);
    size_t done = 0;
    while (n - done >= 48) {
        __m256i in = _mm256_loadu_si256((const __m256i *)(p + done));
        __m256i high = _mm256_and_si256(_mm256_srli_epi32(in, 4), slash);
        __m256i low = _mm256_and_si256(in, slash);
        if (!_mm256_testz_si256(_mm256_shuffle_epi8(low_bad, low), _mm256_shuffle_epi8(high_bad, high))) break;
        in = _mm256_add_epi8(in, _mm256_shuffle_epi8(shifts, _mm256_add_epi8(_mm256_cmpeq_epi8(in, slash), high)));
        in = _mm256_maddubs_epi16(in, _mm256_set1_epi32(0x01400140));
        in = _mm256_shuffle_epi8(_mm256_madd_epi16(in, _mm256_set1_epi32(0x00011000)), gather);
        in = _mm256_permutevar8x32_epi32(in, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7));
        _mm256_storeu_si256((__m256i *)(out + done / 4 * 3), in);
        done += 32;
    }
    return done;
}
static int hr_has_avx2(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2") != 0; }
#else
static size_t hr_encode64_avx2(const uint8_t *p, size_t n, uint8_t *out) { return 0; }
static size_t hr_decode64_avx2(const uint8_t *p, size_t n, uint8_t *out) { return 0; }
static int hr_has_avx2(void) { return 0; }
#endif

/* Returns how many letters it wrote: four for every three bytes, or part of three. */
static size_t hr_encode64(const uint8_t *p, size_t n, uint8_t *out) {
    size_t at = hr_avx2 ? hr_encode64_avx2(p, n, out) : 0;
    uint8_t *o = out + at / 3 * 4;
    for (; n - at >= 3; at += 3, o += 4) {
        uint32_t v = ((uint32_t)p[at] << 16) | ((uint32_t)p[at + 1] << 8) | p[at + 2];
        o[0] = hr_letters[v >> 18]; o[1] = hr_letters[(v >> 12) & 63]; o[2] = hr_letters[(v >> 6) & 63]; o[3] = hr_letters[v & 63];
    }
    if (n - at == 1) {
        o[0] = hr_letters[p[at] >> 2]; o[1] = hr_letters[(p[at] & 3) << 4]; o[2] = o[3] = '='; o += 4;
    } else if (n - at == 2) {
        o[0] = hr_letters[p[at] >> 2]; o[1] = hr_letters[((p[at] & 3) << 4) | (p[at + 1] >> 4)];
        o[2] = hr_letters[(p[at + 1] & 15) << 2]; o[3] = '='; o += 4;
    }
    return (size_t)(o - out);
}

/* Returns how many bytes it wrote, -1 if this is no base64. May write up to 8 bytes more than it says. */
static ptrdiff_t hr_decode64(const uint8_t *p, size_t n, uint8_t *out) {
    size_t at, whole = n;
    int padding = 0;
    if (n % 4) return -1;
    if (n && p[n - 1] == '=') { padding = p[n - 2] == '=' ? 2 : 1; whole -= 4; }
    at = hr_avx2 ? hr_decode64_avx2(p, whole, out) : 0;
    uint8_t *o = out + at / 4 * 3;
    for (; at < whole; at += 4, o += 3) {
        uint32_t a = hr_values[p[at]], b = hr_values[p[at + 1]], c = hr_values[p[at + 2]], d = hr_values[p[at + 3]];
        if ((a | b | c | d) & 0x80) return -1;
        uint32_t v = (a << 18) | (b << 12) | (c << 6) | d;
        o[0] = (uint8_t)(v >> 16); o[1] = (uint8_t)(v >> 8); o[2] = (uint8_t)v;
    }
    if (padding) {
        uint32_t a = hr_values[p[at]], b = hr_values[p[at + 1]], c = padding == 1 ? hr_values[p[at + 2]] : 0;
        if ((a | b | c) & 0x80) return -1;
        if (padding == 2 ? (b & 15) : (c & 3)) return -1; /* bits that no byte has */
        *o++ = (uint8_t)((a << 2) | (b >> 4));
        if (padding == 1) *o++ = (uint8_t)((b << 4) | (c >> 2));
    }
    return o - out;
}

/* --- numbers in decimal */

static uint8_t *hr_write_decimal(uint8_t *out, uint64_t value) {
    uint8_t digits[20];
    int n = 0;
    do { digits[n++] = (uint8_t)('0' + value % 10); value /= 10; } while (value);
    while (n) *out++ = digits[--n];
    return out;
}

/* A hash key: 0, or up to 39 digits that do not begin with 0, below 2**128. */
static int hr_parse_hash(const uint8_t *p, ptrdiff_t n, uint64_t *high, uint64_t *low) {
    uint64_t words[4] = {0, 0, 0, 0}; /* of 32 bits, the lowest first */
    if (n < 1 || n > 39 || (n > 1 && p[0] == '0')) return 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return 0;
        uint64_t carry = (uint64_t)(p[i] - '0');
        for (int w = 0; w < 4; w++) { carry += words[w] * 10; words[w] = carry & 0xFFFFFFFFu; carry >>= 32; }
        if (carry) return 0;
    }
    *high = (words[3] << 32) | words[2];
    *low = (words[1] << 32) | words[0];
    return 1;
}

/* --- sequence numbers, kept as digits: the next offset's is one more */

#define HR_DIGITS 63
typedef struct { int first; uint8_t digits[HR_DIGITS]; } hr_number; /* from `first` on */

/* `base`, of 24 bytes, and `more`; below 2**192. */
static void hr_number_of(hr_number *number, const uint8_t *base, uint64_t more) {
    uint32_t words[6];
    uint64_t carry = more, rest, any = 1;
    for (int w = 5; w >= 0; w--) {
        carry += (uint64_t)hr_get32(base + 4 * w);
        if (w == 5 && carry < more) { /* it has gone around: below, the lost bit is put back */
            words[w] = (uint32_t)carry; carry = (carry >> 32) | (1ull << 32); continue;
        }
        words[w] = (uint32_t)carry; carry >>= 32;
    }
    number->first = HR_DIGITS;
    while (any && number->first >= 9) { /* nine digits at a time */
        rest = any = 0;
        for (int w = 0; w < 6; w++) { rest = (rest << 32) | words[w]; words[w] = (uint32_t)(rest / 1000000000u); rest %= 1000000000u; any |= words[w]; }
        for (int d = 0; d < 9; d++) { number->digits[--number->first] = (uint8_t)('0' + rest % 10); rest /= 10; }
    }
    while (number->first < HR_DIGITS - 1 && number->digits[number->first] == '0') number->first++;
}

static inline void hr_number_next(hr_number *number) {
    int at = HR_DIGITS - 1;
    while (at >= number->first && number->digits[at] == '9') number->digits[at--] = '0';
    if (at >= number->first) number->digits[at]++;
    else if (at >= 0) { number->digits[at] = '1'; number->first = at; }
}

static inline size_t hr_number_size(const hr_number *number) { return (size_t)(HR_DIGITS - number->first); }

static inline uint8_t *hr_number_write(const hr_number *number, uint8_t *out) {
    memcpy(out, number->digits + number->first, HR_DIGITS - number->first);
    return out + (HR_DIGITS - number->first);
}

static void hr_kinesis_init(void) {
    memset(hr_values, 255, sizeof hr_values);
    for (int i = 0; i < 64; i++) hr_values[(uint8_t)hr_letters[i]] = (uint8_t)i;
    hr_avx2 = hr_has_avx2();
}

#endif
