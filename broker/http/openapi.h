/* openapi.h: the OpenAPI document (openapi.json), embedded by the build and served as it is. */
#ifndef TARRY_HTTP_OPENAPI_H
#define TARRY_HTTP_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_json[];
extern const size_t openapi_json_size;

#endif
