/* style.h: colours and bold text for people: only on a terminal, and only if NO_COLOR and TERM allow them. */
#ifndef TARRY_TOOL_STYLE_H
#define TARRY_TOOL_STYLE_H

enum style { STYLE_BOLD, STYLE_GOOD, STYLE_WARNING, STYLE_BAD };

/* Returns the escape sequence for text on this descriptor; "" if it gets no colours. */
const char *style_begin(int fd, enum style style);
const char *style_end(int fd);

#endif
