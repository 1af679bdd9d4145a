/* The other side of plt.c. */
int plt_tiny(int x);
int plt_tiny(int x)
{
    return x * 3 + 1;
}
