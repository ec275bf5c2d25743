<?php

declare(strict_types=1);

namespace Leafd\Tests;

/** The daemon's end of one connection. Writes frames by hand, so that a mistake of the client is not repeated here. */
final class Peer
{
    /** The request ID of the last frame read. */
    public int $id = 0;

    /** @param resource $stream */
    public function __construct(private readonly mixed $stream)
    {
    }

    public static function frame(int $id, int $reply, string $fields = ''): string
    {
        return pack('N', 12 + \strlen($fields)) . pack('PV', $id, $reply) . $fields;
    }

    public static function errorFrame(int $id, int $number, int $retryAfterMs = 0, int $detail = 0, string $text = ''): string
    {
        return self::frame($id, 0, pack('vVPP', $number, $retryAfterMs, $detail, \strlen($text)) . $text);
    }

    public static function idsFrame(int $id, int $first, int $count = 1): string
    {
        return self::frame($id, 2, pack('PVP', $first, $count, 0));
    }

    /** Reads a request, and returns its body. */
    public function read(): string
    {
        $header = $this->bytes(4);
        $body = $this->bytes(unpack('N', $header)[1]);
        $this->id = unpack('P', $body)[1];

        return $body;
    }

    /** Reads a request for IDs, and returns its tag. */
    public function readTag(): string
    {
        return substr($this->read(), 20, -8);
    }

    public function bytes(int $length): string
    {
        $bytes = '';
        while (\strlen($bytes) < $length) {
            $more = fread($this->stream, $length - \strlen($bytes));
            if ($more === false || $more === '') {
                throw new \RuntimeException('the client closed the connection');
            }
            $bytes .= $more;
        }

        return $bytes;
    }

    /** Whether the client closes the connection before it sends another byte. */
    public function isClosed(): bool
    {
        stream_set_timeout($this->stream, 10);

        return fread($this->stream, 1) === '' && feof($this->stream);
    }

    public function hello(): void
    {
        $body = $this->read();
        if (!$this->answersHello($body)) {
            throw new \RuntimeException('this is no hello: ' . bin2hex($body));
        }
    }

    /** Answers the request that was read last, if it is `Hello`. */
    public function answersHello(string $body): bool
    {
        if (substr($body, 8) !== "\0\0\0\0LEAF\1\0" || $this->id === 0) {
            return false;
        }
        $this->send(self::frame($this->id, 1, pack('vVV', 1, 100_000, 1024)));

        return true;
    }

    /** Answers the request that was read last. */
    public function ids(int $first, int $count = 1): void
    {
        $this->send(self::idsFrame($this->id, $first, $count));
    }

    public function error(int $number, int $retryAfterMs = 0, int $detail = 0): void
    {
        $this->send(self::errorFrame($this->id, $number, $retryAfterMs, $detail));
    }

    public function goodbye(): void
    {
        $this->send(self::frame(0, 6));
    }

    /** Also to a client that has closed. */
    public function send(string $bytes): void
    {
        @fwrite($this->stream, $bytes);
    }

    public function close(): void
    {
        fclose($this->stream);
    }
}
