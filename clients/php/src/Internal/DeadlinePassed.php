<?php

declare(strict_types=1);

namespace Leafd\Internal;

/**
 * The deadline of a call passed. The client knows whether it was connected, and tells its caller.
 *
 * @internal
 */
final class DeadlinePassed extends \RuntimeException
{
}
