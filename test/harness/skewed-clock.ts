/**
 * Loaded before a node (`node --import`): its wall clock differs from the machine's by the milliseconds in `TEST_CLOCK_SKEW_MS`. The
 * monotonic clock stays what it is, as with a clock that is set wrong.
 */
const skewMs = Number(process.env["TEST_CLOCK_SKEW_MS"] ?? 0)
const now = Date.now.bind(Date)

globalThis.Date = new Proxy(Date, {
  construct: (target, values, as) =>
    Reflect.construct(target, values.length === 0 ? [now() + skewMs] : values, as) as Date,
  get: (target, name, receiver) =>
    name === "now" ? () => now() + skewMs : Reflect.get(target, name, receiver) as unknown,
})
