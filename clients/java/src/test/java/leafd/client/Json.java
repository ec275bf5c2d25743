package leafd.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Enough JSON for the files in {@code protocol/}: numbers, true and false stay texts, and null is null. */
public final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /**
     * The objects in a list of a file of vectors. The file lies beside the clients in the source tree; {@code
     * check} and Maven start in this client's folder.
     */
    public static List<Map<?, ?>> vectors(String file, String list) throws IOException {
        Map<?, ?> all = (Map<?, ?>) parse(Files.readString(Path.of("../../protocol", file)));
        List<Map<?, ?>> found = new ArrayList<>();
        for (Object vector : (List<?>) all.get(list)) {
            found.add((Map<?, ?>) vector);
        }
        if (found.isEmpty()) {
            throw new IOException(file + " has no " + list);
        }
        return found;
    }

    public static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.next() != 0) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        switch (next()) {
            case '{':
                Map<String, Object> object = new LinkedHashMap<>();
                at++;
                while (next() != '}') {
                    String name = string();
                    skip(':');
                    object.put(name, value());
                    if (next() != '}') {
                        skip(',');
                    }
                }
                at++;
                return object;
            case '[':
                List<Object> list = new ArrayList<>();
                at++;
                while (next() != ']') {
                    list.add(value());
                    if (next() != ']') {
                        skip(',');
                    }
                }
                at++;
                return list;
            case '"':
                return string();
            default:
                int start = at;
                while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                    at++;
                }
                String word = text.substring(start, at);
                if (word.isEmpty()) {
                    throw wrong();
                }
                return word.equals("null") ? null : word;
        }
    }

    private String string() {
        skip('"');
        StringBuilder read = new StringBuilder();
        while (text.charAt(at) != '"') {
            char c = text.charAt(at++);
            read.append(c == '\\' ? escaped() : c);
        }
        at++;
        return read.toString();
    }

    private char escaped() {
        char c = text.charAt(at++);
        switch (c) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return c;
        }
    }

    /** The next character that is no space; 0 at the end. */
    private char next() {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private void skip(char expected) {
        if (next() != expected) {
            throw wrong();
        }
        at++;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at character " + at);
    }
}
