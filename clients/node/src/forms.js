'use strict';

// Forms of an ID, defined bit by bit in leafd's docs/forms.md. Pure functions; they need no daemon.

const { Day } = require('./forms/day.js');
const { Snowflakes } = require('./forms/snowflakes.js');
const { decode, encode } = require('./forms/text.js');
const { NAMESPACE, uuid5 } = require('./forms/uuid.js');

module.exports = { Day, NAMESPACE, Snowflakes, decode, encode, uuid5 };
