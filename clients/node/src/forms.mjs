// The same objects as by `require`, so that `instanceof` holds whichever way a program loads them.
import forms from './forms.js';

export const { Day, NAMESPACE, Snowflakes, decode, encode, uuid5 } = forms;
