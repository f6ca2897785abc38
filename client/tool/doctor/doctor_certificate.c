/* doctor_certificate.c: checks every certificate in a PEM file. */
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "findings.h"
#include "units.h"

#define SOON_S (21ll * 24 * 3600)
#define DAY_S 86400
#define CERTIFICATE_FILE_MAX (1 << 20) /* bytes; error messages contain this number */

/* Returns the seconds from now until `time`; negative in the past. False: `time` is invalid. */
static bool seconds_until(const ASN1_TIME *time, long long *out) {
    int days = 0, seconds = 0;
    if (time == NULL || ASN1_TIME_diff(&days, &seconds, NULL, time) != 1) return false;
    *out = (long long)days * DAY_S + seconds;
    return true;
}

/* Returns the time in whole days, or in whole minutes if it is less than one day. */
static uint64_t in_whole(long long seconds) {
    long long unit = seconds >= DAY_S ? DAY_S : 60;
    return (uint64_t)(seconds / unit * unit) * 1000;
}

static void look_at(struct findings *findings, const char *path, X509 *certificate) {
    static const char mend[] = "replace it: tarryd reads the changed file without a restart; if the unit has a copy of "
                               "it (LoadCredential=), restart the broker";
    char name[200], text[UNITS_TEXT_SIZE];
    long long begins_s, ends_s;
    X509_NAME_oneline(X509_get_subject_name(certificate), name, (int)sizeof name);
    if (!seconds_until(X509_get0_notBefore(certificate), &begins_s) ||
        !seconds_until(X509_get0_notAfter(certificate), &ends_s)) {
        finding_add(findings, FOUND_FAIL, "certificate", mend, "%s: %s has invalid validity times", path, name);
        return;
    }
    if (begins_s > 0)
        finding_add(findings, FOUND_FAIL, "certificate", "check this host's clock", "%s: %s is not valid yet", path,
                    name);
    else if (ends_s <= 0)
        finding_add(findings, FOUND_FAIL, "certificate", mend, "%s: %s has expired, %s ago", path, name,
                    duration_format(in_whole(-ends_s), text));
    else
        finding_add(findings, ends_s < SOON_S ? FOUND_WARN : FOUND_FINE, "certificate", ends_s < SOON_S ? mend : NULL,
                    "%s: %s is valid for %s", path, name, duration_format(in_whole(ends_s), text));
}

/* Opens a regular file of at most CERTIFICATE_FILE_MAX bytes, because reading /dev/zero would never end. On failure
 * returns NULL and sets `*out_problem`. */
static FILE *open_file(const char *path, const char **out_problem) {
    struct stat status;
    bool is_wrong = stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || status.st_size > CERTIFICATE_FILE_MAX);
    FILE *file = is_wrong ? NULL : fopen(path, "re");
    *out_problem = is_wrong ? "it is not a regular file of at most 1 MiB" : strerror(errno);
    return file;
}

void doctor_certificate(struct findings *findings, const char *path) {
    const char *problem;
    FILE *file = open_file(path, &problem);
    size_t count = 0;
    if (file == NULL) {
        finding_add(findings, FOUND_FAIL, "certificate", "give a readable PEM file of at most 1 MiB", "%s: %s", path,
                    problem);
        return;
    }
    for (X509 *certificate; (certificate = PEM_read_X509(file, NULL, NULL, NULL)) != NULL; count++) {
        look_at(findings, path, certificate);
        X509_free(certificate);
    }
    fclose(file);
    if (count == 0)
        finding_add(findings, FOUND_FAIL, "certificate", "give a PEM file", "%s contains no certificate", path);
}
