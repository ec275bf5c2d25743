<?php

declare(strict_types=1);

/** A small FastCGI client: one request per connection, which can be dropped half way. */
final class FastCgi
{
    private const BEGIN = 1;
    private const END = 3;
    private const PARAMS = 4;
    private const STDIN = 5;
    private const STDOUT = 6;

    public function __construct(private readonly string $socket)
    {
    }

    /**
     * Returns the output; `null` if the worker ended before its answer did, or if `$patience` passed.
     *
     * @param array<string, string> $params
     * @param float|null            $patience seconds after which the client goes away
     */
    public function request(array $params, ?float $patience = null): ?string
    {
        $stream = @stream_socket_client("unix://$this->socket", $errno, $reason, 10);
        if ($stream === false) {
            return null;
        }
        $pairs = '';
        foreach ($params as $name => $value) {
            $pairs .= pack('NN', \strlen($name) | 1 << 31, \strlen($value) | 1 << 31) . $name . $value;
        }
        @fwrite($stream, self::record(self::BEGIN, pack('nCx5', 1, 0)) . self::record(self::PARAMS, $pairs)
            . self::record(self::PARAMS, '') . self::record(self::STDIN, ''));
        if ($patience !== null) {
            usleep((int) ($patience * 1e6));
            fclose($stream);

            return null;
        }
        stream_set_timeout($stream, 60);
        for ($output = ''; ($header = self::read($stream, 8)) !== null;) {
            $header = unpack('Cversion/Ctype/nid/nlength/Cpadding', $header);
            $content = self::read($stream, $header['length'] + $header['padding']);
            if ($header['type'] === self::STDOUT) {
                $output .= substr((string) $content, 0, $header['length']);
            } elseif ($header['type'] === self::END) {
                return $output;
            }
        }

        return null;
    }

    private static function record(int $type, string $content): string
    {
        return pack('CCnnCx', 1, $type, 1, \strlen($content), 0) . $content;
    }

    private static function read(mixed $stream, int $length): ?string
    {
        for ($bytes = ''; \strlen($bytes) < $length; $bytes .= $more) {
            $more = fread($stream, $length - \strlen($bytes));
            if ($more === false || $more === '') {
                return null;
            }
        }

        return $bytes;
    }
}
