/* What the compiled twins share: numbers in network order, and CRC-32C. Each twin includes it and has its own copy of the
   tables, which `hr_init` fills; the functions are static, so one that a twin does not use costs it nothing. */
#ifndef HEADRACE_NATIVE_H
#define HEADRACE_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Shifts rather than byte swaps: right on any byte order, and compilers make one instruction of them. */
static inline uint16_t hr_get16(const uint8_t *p) { return (uint16_t)((p[0] << 8) | p[1]); }
static inline uint32_t hr_get32(const uint8_t *p) {
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | (uint32_t)p[3];
}
static inline uint64_t hr_get64(const uint8_t *p) {
    return ((uint64_t)hr_get32(p) << 32) | (uint64_t)hr_get32(p + 4);
}
static inline void hr_put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static inline void hr_put32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24); p[1] = (uint8_t)(v >> 16); p[2] = (uint8_t)(v >> 8); p[3] = (uint8_t)v;
}
static inline void hr_put64(uint8_t *p, uint64_t v) { hr_put32(p, (uint32_t)(v >> 32)); hr_put32(p + 4, (uint32_t)v); }

/* CRC-32C by eight tables: eight bytes a step, on any machine. */
static uint32_t hr_crc_tables[8][256];

static void hr_crc_init(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
        hr_crc_tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            hr_crc_tables[t][i] = (hr_crc_tables[t - 1][i] >> 8) ^ hr_crc_tables[0][hr_crc_tables[t - 1][i] & 0xFF];
}

static uint32_t hr_crc_soft(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24));
        crc = hr_crc_tables[7][low & 0xFF] ^ hr_crc_tables[6][(low >> 8) & 0xFF] ^
              hr_crc_tables[5][(low >> 16) & 0xFF] ^ hr_crc_tables[4][low >> 24] ^
              hr_crc_tables[3][p[4]] ^ hr_crc_tables[2][p[5]] ^ hr_crc_tables[1][p[6]] ^ hr_crc_tables[0][p[7]];
        p += 8; n -= 8;
    }
    while (n--) crc = (crc >> 8) ^ hr_crc_tables[0][(crc ^ *p++) & 0xFF];
    return ~crc;
}

/* And by the processor's own instruction, where it has one; that is asked at run time. It takes three cycles but
   can begin in each, so three lanes run side by side. hr_crc_lane moves a CRC over one lane of zeros, which is what
   joins it to the CRC of the next lane. */
#define HR_LANE 1024
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <nmmintrin.h>
static uint32_t hr_crc_lane[4][256];

static void hr_crc_init_lanes(void) {
    uint32_t columns[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (int i = 0; i < HR_LANE; i++) crc = (crc >> 8) ^ hr_crc_tables[0][crc & 0xFF];
        columns[bit] = crc;
    }
    for (int t = 0; t < 4; t++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = 0;
            for (int bit = 0; bit < 8; bit++) if (i & (1u << bit)) crc ^= columns[8 * t + bit];
            hr_crc_lane[t][i] = crc;
        }
}

static inline uint32_t hr_crc_over_lane(uint32_t crc) {
    return hr_crc_lane[0][crc & 0xFF] ^ hr_crc_lane[1][(crc >> 8) & 0xFF] ^
           hr_crc_lane[2][(crc >> 16) & 0xFF] ^ hr_crc_lane[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t hr_crc_hard(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t a = (uint32_t)~crc, b, c, x, y, z;
    while (n >= 3 * HR_LANE) {
        b = c = 0;
        for (const uint8_t *end = p + HR_LANE; p < end; p += 8) {
            memcpy(&x, p, 8); memcpy(&y, p + HR_LANE, 8); memcpy(&z, p + 2 * HR_LANE, 8);
            a = _mm_crc32_u64(a, x); b = _mm_crc32_u64(b, y); c = _mm_crc32_u64(c, z);
        }
        a = hr_crc_over_lane(hr_crc_over_lane((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
        p += 2 * HR_LANE; n -= 3 * HR_LANE;
    }
    while (n >= 8) { memcpy(&x, p, 8); a = _mm_crc32_u64(a, x); p += 8; n -= 8; }
    uint32_t narrow = (uint32_t)a;
    while (n--) narrow = _mm_crc32_u8(narrow, *p++);
    return ~narrow;
}
static int hr_crc_has_hard(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2") != 0; }
#else
static void hr_crc_init_lanes(void) {}
static uint32_t hr_crc_hard(uint32_t crc, const uint8_t *p, size_t n) { return hr_crc_soft(crc, p, n); }
static int hr_crc_has_hard(void) { return 0; }
#endif

static int hr_hardware_crc = 0;

static void hr_init(void) { hr_crc_init(); hr_crc_init_lanes(); hr_hardware_crc = hr_crc_has_hard(); }

static inline uint32_t hr_crc32c(uint32_t crc, const uint8_t *p, size_t n) {
    return hr_hardware_crc ? hr_crc_hard(crc, p, n) : hr_crc_soft(crc, p, n);
}

#endif
