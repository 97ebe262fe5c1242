/** Builds the dashboard into `http/web/dist`; the node serves that folder. */
import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  logLevel: "warn",
  build: { outDir: "dist", emptyOutDir: true, target: "es2023", sourcemap: false, chunkSizeWarningLimit: 2000 },
})
