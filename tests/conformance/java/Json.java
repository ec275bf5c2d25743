import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much JSON as the driver needs, without a dependency. Numbers are kept as their text. */
final class Json {
    /** A number that stays what it was written as. */
    record Number(String text) {}

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads a value: Map, List, String, {@link Number}, Boolean or null. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at != text.length()) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        space();
        if (at == text.length()) {
            throw wrong();
        }
        switch (text.charAt(at)) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            default:
                int start = at;
                while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                    at++;
                }
                String word = text.substring(start, at);
                return switch (word) {
                    case "true" -> true;
                    case "false" -> false;
                    case "null" -> null;
                    default -> number(word);
                };
        }
    }

    private Number number(String word) {
        if (!word.matches("-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?")) {
            throw wrong();
        }
        return new Number(word);
    }

    private Map<String, Object> object() {
        Map<String, Object> object = new LinkedHashMap<>();
        at++;
        if (skip('}')) {
            return object;
        }
        do {
            space();
            String name = string();
            expect(':');
            object.put(name, value());
        } while (skip(','));
        expect('}');
        return object;
    }

    private List<Object> array() {
        List<Object> array = new ArrayList<>();
        at++;
        if (skip(']')) {
            return array;
        }
        do {
            array.add(value());
        } while (skip(','));
        expect(']');
        return array;
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        expect('"');
        while (true) {
            char c = next();
            if (c == '"') {
                return string.toString();
            } else if (c != '\\') {
                string.append(c);
                continue;
            }
            c = next();
            switch (c) {
                case 'b' -> string.append('\b');
                case 'f' -> string.append('\f');
                case 'n' -> string.append('\n');
                case 'r' -> string.append('\r');
                case 't' -> string.append('\t');
                case 'u' -> {
                    string.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                }
                default -> string.append(c);
            }
        }
    }

    private char next() {
        if (at == text.length()) {
            throw wrong();
        }
        return text.charAt(at++);
    }

    private boolean skip(char c) {
        space();
        boolean found = at < text.length() && text.charAt(at) == c;
        at += found ? 1 : 0;
        return found;
    }

    private void expect(char c) {
        if (!skip(c)) {
            throw wrong();
        }
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at character " + at + ": " + text);
    }

    /** Writes a value. Whole numbers are written as numbers, so 64-bit ones are passed as strings. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                write(entry.getKey(), out);
                out.append(":");
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            String separator = "[";
            for (Object element : list) {
                out.append(separator);
                write(element, out);
                separator = ",";
            }
            out.append(list.isEmpty() ? "[]" : "]");
        } else if (value instanceof String string) {
            out.append('"');
            string.chars().forEach(c -> {
                if (c == '"' || c == '\\') {
                    out.append('\\').append((char) c);
                } else if (c < ' ' || c > '~') {
                    out.append(String.format("\\u%04x", c));
                } else {
                    out.append((char) c);
                }
            });
            out.append('"');
        } else if (value instanceof Number number) {
            out.append(number.text());
        } else {
            out.append(value);
        }
    }
}
