/** Whether a process stays as large as it is: its memory, read again and again, the beginning compared with the end. */
import { memoryBytes } from "../bench/usage.ts"
import type { NodeProcess } from "./node-process.ts"

export interface MemoryWatch {
  /** Begins to count: what was read before was the start of the process. */
  readonly settle: () => void
  readonly stop: () => Flatness
}

export interface Flatness {
  readonly samples: number
  /** MiB, proportional set size without PostgreSQL. Of the first and the last third: the least, which a collection leaves. */
  readonly firstMiB: number
  readonly lastMiB: number
  readonly mostMiB: number
  readonly text: string
}

const mebibyte = 1 << 20

const sizeOf = (node: NodeProcess): number | null => {
  const { node: own, postgres } = node.roots()
  const [whole, database] = [memoryBytes([...own, ...postgres]), memoryBytes(postgres)]
  return whole === null || database === null ? null : (whole - database) / mebibyte
}

export const watchMemory = (node: NodeProcess, everyMs = 2_000): MemoryWatch => {
  let sizes: Array<number> = []
  const timer = setInterval(() => {
    const size = node.running ? sizeOf(node) : null
    if (size !== null && size > 0) sizes.push(size)
  }, everyMs)
  return {
    settle: () => {
      sizes = []
    },
    stop: () => {
      clearInterval(timer)
      const third = Math.max(1, Math.floor(sizes.length / 3))
      const firstMiB = Math.min(...sizes.slice(0, third))
      const lastMiB = Math.min(...sizes.slice(-third))
      const mostMiB = Math.max(...sizes)
      const [first, last, most] = [firstMiB, lastMiB, mostMiB].map((size) => size.toFixed(0))
      return {
        samples: sizes.length,
        firstMiB,
        lastMiB,
        mostMiB,
        text:
          `memory (least of the first and the last third, most): ${first}, ${last}, ${most} MiB in ${sizes.length} readings`,
      }
    },
  }
}
