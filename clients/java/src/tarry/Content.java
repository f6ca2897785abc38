package tarry;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Payload and attributes of a task. */
record Content(byte[] body, Map<String, String> attributes) {
    static Content of(byte[] packed) {
        Wire.In in = new Wire.In(packed);
        Map<String, String> attributes = new LinkedHashMap<>();
        for (Wire.In attribute : in.messages(Wire.Content.ATTRIBUTES)) attributes.put(attribute.text(Wire.Attribute.NAME), attribute.text(Wire.Attribute.VALUE));
        return new Content(in.bytes(Wire.Content.PAYLOAD), Collections.unmodifiableMap(attributes));
    }

    String text() {
        return new String(body, StandardCharsets.UTF_8);
    }
}
