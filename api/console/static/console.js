// The script of the console.
