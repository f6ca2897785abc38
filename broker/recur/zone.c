/* zone.c: see zone.h. */
#include "zone.h"

#include <endian.h>
#include <glib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tarry_limits.h"

/* Transitions are tabulated from 1970 to 2200. Later times have the last offset. */
#define TABLE_END_S 7258118400ll
#define SPANS_MAX 1024u
#define ZONES_SLOTS 1024u /* more than the number of zones and links in tzdata */
#define TZDATA_TEXT "/usr/share/zoneinfo/tzdata.zi"
#define TZDATA_VERSION_SIZE 16u

struct zone {
    char name[RECUR_ZONE_SIZE_MAX + 1];
    size_t count;
    struct zone_span spans[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zone *zones[ZONES_SLOTS]; /* hash table of loaded zones; guarded by `lock` */

/* The source of a zone's offsets: GLib, except for zones whose last rule GLib reads wrongly (rule_exchange). */
struct source {
    GTimeZone *early; /* before late_s */
    GTimeZone *late;  /* zone data for times at or after late_s; NULL: the table of spans ends at late_s */
    int64_t late_s;
};

static int32_t offset_at(const struct source *source, int64_t unix_s) {
    GTimeZone *from = unix_s < source->late_s ? source->early : source->late;
    return g_time_zone_get_offset(from, g_time_zone_find_interval(from, G_TIME_TYPE_UNIVERSAL, unix_s));
}

/* Returns the first second after `low` that is in another interval of `from` than `low`. Returns `high` if there is no
 * such second below `high`. */
static int64_t next_interval(GTimeZone *from, int64_t low, int64_t high) {
    const int first = g_time_zone_find_interval(from, G_TIME_TYPE_UNIVERSAL, low);
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        if (g_time_zone_find_interval(from, G_TIME_TYPE_UNIVERSAL, middle) == first)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int64_t next_change(const struct source *source, int64_t low) {
    if (low < source->late_s) return next_interval(source->early, low, source->late_s);
    return next_interval(source->late, low, TABLE_END_S);
}

static struct zone *tabulate(const char *name, const struct source *source) {
    struct zone *zone = calloc(1, sizeof(*zone) + SPANS_MAX * sizeof(zone->spans[0]));
    if (zone == NULL) abort();
    snprintf(zone->name, sizeof(zone->name), "%s", name);
    int32_t offset = offset_at(source, 0);
    zone->spans[0] = (struct zone_span){INT64_MIN, INT64_MAX, offset, offset};
    zone->count = 1;
    for (int64_t at = next_change(source, 0); at < TABLE_END_S && zone->count < SPANS_MAX;
         at = next_change(source, at)) {
        const int32_t before = offset;
        offset = offset_at(source, at);
        /* GLib reports a new interval, but the offset is the same: only the zone's abbreviation (CET, CEST) changes. */
        if (offset == before) continue;
        zone->spans[zone->count - 1].end_s = at;
        zone->spans[zone->count++] = (struct zone_span){at, INT64_MAX, offset, before};
    }
    return zone;
}

static bool name_is_plain(const char *name) {
    if (name[0] == '\0' || name[0] == '/' || strlen(name) > RECUR_ZONE_SIZE_MAX) return false;
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/";
    return name[strspn(name, plain)] == '\0'; /* without dots, the path cannot lead out of the directory of tzdata */
}

/* ---- the rule of a zone's later years
 *
 * GLib 2.74 reads a rule wrongly if daylight saving time is behind standard time, as in Europe/Dublin's
 * "IST-1GMT0,M10.5.0,M3.5.0/1". It reads the equal rule "GMT0IST-1,M3.5.0/1,M10.5.0". */

/* Returns the size of a time zone's abbreviation with its offset, such as "IST-1", at the start of `text`. Returns 0 if
 * `text` does not start with one. */
static size_t side_size(const char *text, long *out_west_s) {
    size_t size =
        text[0] == '<' ? strcspn(text, ">") + 1 : strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    if (size > strlen(text)) return 0;
    const char *offset = text + size, *digits = offset + (offset[0] == '+' || offset[0] == '-');
    const size_t digits_size = strspn(digits, "0123456789:");
    if (size == 0 || digits_size == 0) return 0;
    long hours = 0, minutes = 0;
    if (sscanf(digits, "%2ld:%2ld", &hours, &minutes) < 1) return 0;
    *out_west_s = (hours * 3600 + minutes * 60) * (offset[0] == '-' ? -1 : 1);
    return (size_t)(digits + digits_size - text);
}

/* If daylight saving time is behind standard time, writes a rule with the same meaning in which the two are exchanged.
 * Otherwise returns false. */
static bool rule_exchange(const char *rule, char *out, size_t out_size) {
    long west_s = 0, dst_west_s = 0;
    const size_t standard = side_size(rule, &west_s);
    const size_t daylight = standard != 0 ? side_size(rule + standard, &dst_west_s) : 0;
    const char *dates = rule + standard + daylight;
    const char *end = daylight != 0 && dates[0] == ',' ? strchr(dates + 1, ',') : NULL;
    if (end == NULL || dst_west_s <= west_s) return false;
    const int size = snprintf(out, out_size, "%.*s%.*s%s%.*s", (int)daylight, rule + standard, (int)standard, rule, end,
                              (int)(end - dates), dates);
    return size > 0 && (size_t)size < out_size;
}

struct tzif_header {
    char magic[4], version, reserved[15];
    uint32_t utc_count, std_count, leap_count, time_count, type_count, char_count; /* big-endian */
};

/* Finds the rule for later years in a file of tzdata (RFC 8536). `*out_last_s`: the last change before the rule
 * applies. Returns false if the file has no such rule. */
static bool find_rule(const char *bytes, size_t size, char *out, size_t out_size, int64_t *out_last_s) {
    struct tzif_header head;
    if (size < sizeof head) return false;
    memcpy(&head, bytes, sizeof head);
    const uint64_t times = be32toh(head.time_count), types = be32toh(head.type_count);
    const uint64_t first = sizeof head + times * 5 + types * 6 + be32toh(head.char_count) +
                           (uint64_t)be32toh(head.leap_count) * 8 + be32toh(head.std_count) + be32toh(head.utc_count);
    if (head.version < '2' || first + sizeof head > size) return false;
    memcpy(&head, bytes + first, sizeof head);
    const uint64_t count = be32toh(head.time_count), times_end = first + sizeof head + count * 8;
    if (count == 0 || times_end > size || bytes[size - 1] != '\n') return false;
    uint64_t last = 0;
    memcpy(&last, bytes + times_end - sizeof last, sizeof last);
    *out_last_s = (int64_t)be64toh(last);
    size_t at = size - 1;
    while (at > 0 && bytes[at - 1] != '\n') at--;
    if (size - 1 - at >= out_size) return false;
    memcpy(out, bytes + at, size - 1 - at);
    out[size - 1 - at] = '\0';
    return true;
}

/* GLib accepts "+08:00" and POSIX rules too. Only names of tzdata are allowed: others have no daylight saving rules
 * that are kept up to date. */
static bool source_open(const char *name, struct source *out) {
    char path[sizeof("/usr/share/zoneinfo/") + RECUR_ZONE_SIZE_MAX], rule[128], equal[sizeof rule];
    static char bytes[65536]; /* guarded by `lock`; files of tzdata have up to 4 KiB */
    snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    if (size < 4 || memcmp(bytes, "TZif", 4) != 0) return false;
    *out = (struct source){.early = g_time_zone_new_identifier(name), .late_s = TABLE_END_S};
    if (out->early == NULL) return false;
    int64_t last_s = 0;
    if (!find_rule(bytes, size, rule, sizeof rule, &last_s) || !rule_exchange(rule, equal, sizeof equal)) return true;
    if (last_s < 0 || last_s >= TABLE_END_S) return true;
    out->late = g_time_zone_new_identifier(equal);
    if (out->late != NULL) out->late_s = last_s + 1;
    return true;
}

static void source_close(struct source *source) {
    g_time_zone_unref(source->early);
    if (source->late != NULL) g_time_zone_unref(source->late);
}

const struct zone *zone_find(const char *name) {
    if (!name_is_plain(name)) return NULL;
    pthread_mutex_lock(&lock);
    size_t slot = g_str_hash(name) % ZONES_SLOTS;
    while (zones[slot] != NULL && strcmp(zones[slot]->name, name) != 0) slot = (slot + 1) % ZONES_SLOTS;
    struct source source;
    if (zones[slot] == NULL && source_open(name, &source)) {
        zones[slot] = tabulate(name, &source);
        source_close(&source);
    }
    const struct zone *zone = zones[slot];
    pthread_mutex_unlock(&lock);
    return zone;
}

const char *zone_name(const struct zone *zone) {
    return zone->name;
}

struct zone_span zone_span_at(const struct zone *zone, int64_t unix_s) {
    size_t low = 0, high = zone->count;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (zone->spans[middle].start_s <= unix_s)
            low = middle;
        else
            high = middle;
    }
    return zone->spans[low];
}

static char data_version[TZDATA_VERSION_SIZE];

static void read_data_version(void) {
    FILE *file = fopen(TZDATA_TEXT, "re");
    if (file == NULL) return;
    if (fscanf(file, "# version %15s", data_version) != 1) data_version[0] = '\0';
    fclose(file);
}

const char *zone_data_version(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_data_version);
    return data_version;
}

/* ---- civil dates (proleptic Gregorian) */

int64_t civil_days(int64_t year, unsigned month, unsigned day) {
    year -= month <= 2;
    const int64_t era = (year >= 0 ? year : year - 399) / 400;
    const unsigned of_era = (unsigned)(year - era * 400);
    /* Day of a year that begins on 1 March. */
    const unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct civil civil_of(int64_t days) {
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const unsigned of_era = (unsigned)(days - era * 146097);
    const unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    const unsigned shifted = (5 * of_year + 2) / 153;
    const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
    return (struct civil){year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1};
}

bool civil_is_leap(int64_t year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

unsigned civil_month_days(int64_t year, unsigned month) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && civil_is_leap(year));
}

void zone_format(const struct zone *zone, int64_t unix_s, char out[ZONE_TIME_SIZE]) {
    const int32_t offset = zone_span_at(zone, unix_s).offset_s;
    const int64_t local = unix_s + offset;
    const int64_t days = local >= 0 ? local / 86400 : (local - 86399) / 86400;
    const unsigned of_day = (unsigned)(local - days * 86400);
    const struct civil date = civil_of(days);
    char suffix[8] = "Z";
    const unsigned size = (unsigned)(offset < 0 ? -offset : offset);
    if (offset != 0)
        snprintf(suffix, sizeof(suffix), "%c%02u:%02u", offset < 0 ? '-' : '+', size / 3600 % 100, size / 60 % 60);
    snprintf(out, ZONE_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u%.7s", (unsigned)date.year % 10000, date.month % 100,
             date.day % 100, of_day / 3600, of_day / 60 % 60, of_day % 60, suffix);
}
