/* busbar.c - the front door: one line per subcommand. */
int main(void)
{
    return 0;
}
