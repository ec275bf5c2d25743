<?php

declare(strict_types=1);

namespace Leafd\Internal;

/** @internal */
final class HelloReply
{
    /**
     * @param int $version     the version of the protocol in use
     * @param int $maxCount    the most IDs of one request
     * @param int $maxInFlight the most requests in flight on this connection
     */
    public function __construct(
        public readonly int $version,
        public readonly int $maxCount,
        public readonly int $maxInFlight,
    ) {
    }
}
