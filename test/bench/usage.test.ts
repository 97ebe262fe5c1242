/** What the benchmark reads from `/proc`, held against what the process knows of itself. */
import { execFileSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import { cpuSeconds, memoryBytes, treeOf } from "./usage.ts"

describe.skipIf(process.platform !== "linux")("use of a process tree", () => {
  it("counts its own CPU time, and that of children that have gone", () => {
    const own = () => process.cpuUsage()
    const before = cpuSeconds([process.pid])
    const begun = own()
    while (own().user - begun.user < 200_000) JSON.stringify({ busy: [1, 2, 3] })
    execFileSync(process.execPath, ["-e", "while (process.cpuUsage().user < 200_000) ;"])
    const spent = cpuSeconds([process.pid]) - before
    const known = (own().user + own().system - begun.user - begun.system) / 1e6 + 0.2
    expect(spent).toBeGreaterThanOrEqual(known - 0.05)
  })

  it("finds itself, and nothing where there is no such process", () => {
    expect(treeOf([process.pid])).toContain(process.pid)
    expect(treeOf([2 ** 22 + 1])).toEqual([])
    expect(cpuSeconds([2 ** 22 + 1])).toBe(0)
  })

  it("counts memory once", () => {
    const alone = memoryBytes([process.pid])!
    expect(alone).toBeGreaterThan(1 << 20)
    expect(alone).toBeLessThan(process.memoryUsage().rss * 1.5)
    expect(memoryBytes([process.pid, process.pid])! / alone).toBeCloseTo(1, 1)
  })
})
